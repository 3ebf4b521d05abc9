// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Has a veth's arrivals handled on our processor instead of the sender's.
//!
//! A veth polls for arrivals (NAPI) on the processor that sent them: the server's would do our
//! receiving too, and look slower than it is (by a sixth, for exchanges of one packet). So a
//! thread of the kernel polls on our processor, and a timer wakes it there, so that the sender
//! needs not even wake it (Linux, Documentation/networking/napi.rst: threaded NAPI, and software
//! interrupt coalescing). A packet waits up to [`EVERY_NS`] for that, as on a network card that
//! moderates its interrupts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sched::{sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::raw::route::Interface;

/// How often arrivals are polled for, in ns: well within the time in which a veth's 256 places
/// fill up.
const EVERY_NS: u32 = 30_000;
/// Polls without arrivals before the sender is asked to wake us again: about never.
const EMPTY_POLLS: u32 = 2_000_000_000;
/// Any real-time priority comes before the crowd, which never sleeps when it is busy.
const PRIORITY: i32 = 1;

/// What makes it so, in the order in which it is written.
const SETTINGS: [(&str, u32); 3] =
    [("gro_flush_timeout", EVERY_NS), ("napi_defer_hard_irqs", EMPTY_POLLS), ("threaded", 1)];

/// An interface that is polled on our processors. Dropped, it is as it was.
#[derive(Debug)]
pub(crate) struct Polled {
    before: Vec<(PathBuf, String)>,
}

impl Polled {
    /// Moves an interface's polling to the processors that the calling thread is bound to; `None`
    /// when it is bound to none, since then there is nowhere to move it, and where `/sys` is of
    /// another network namespace. `strangers` are the polling threads that were there before the
    /// interface had any (see [`threads_of`]).
    ///
    /// After a SIGKILL the settings stay, but not the threads: those go with the XDP program. The next
    /// crowd takes the settings back.
    ///
    /// # Errors
    /// Where `/sys` does not know the interface's name or is read-only, or the kernel is older than
    /// Linux 5.12.
    pub(crate) fn here(interface: &Interface, strangers: &[Pid]) -> io::Result<Option<Self>> {
        let own = sched_getaffinity(Pid::from_raw(0))?;
        let everyone = sched_getaffinity(Pid::from_raw(1)).unwrap_or_default();
        if own == everyone {
            return Ok(None);
        }
        let folder = Path::new("/sys/class/net").join(&interface.name);
        if !is_of(&folder, interface)? {
            return Ok(None);
        }
        let polled = Self::with_settings(&folder)?;
        for thread in threads_of(&interface.name)? {
            if strangers.contains(&thread) {
                continue;
            }
            sched_setaffinity(thread, &own)?;
            go_first(thread)?;
        }
        Ok(Some(polled))
    }

    /// Sets what makes it so, in an interface's folder.
    fn with_settings(folder: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for (name, value) in SETTINGS {
            let path = folder.join(name);
            let before = fs::read_to_string(&path)?.trim().to_owned();
            files.push((path, before, value.to_string()));
        }
        // Nobody else has just these: a crowd that was killed has left them.
        let are_left = files.iter().all(|(_, before, value)| before == value);
        let mut polled = Self { before: Vec::new() };
        for (path, before, value) in files {
            fs::write(&path, value)?;
            polled.before.push((path, if are_left { "0".to_owned() } else { before }));
        }
        Ok(polled)
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        for (path, value) in self.before.drain(..).rev() {
            // The interface may be gone.
            let _ = fs::write(path, value);
        }
    }
}

/// Whether a folder of `/sys` is this interface's. A container may see its host's `/sys`, where
/// another interface has the same name.
fn is_of(folder: &Path, interface: &Interface) -> io::Result<bool> {
    let index = fs::read_to_string(folder.join("ifindex"))?;
    let mac = fs::read_to_string(folder.join("address"))?;
    let own_mac = interface.mac.map(|octet| format!("{octet:02x}")).join(":");
    Ok(index.trim() == interface.index.to_string() && mac.trim() == own_mac)
}

/// The kernel's threads that poll interfaces of this name, of other network namespaces too.
pub(crate) fn threads_of(interface: &str) -> io::Result<Vec<Pid>> {
    let prefix = format!("napi/{interface}-");
    // The kernel keeps 15 bytes of a thread's name, whatever characters they are.
    let prefix = &prefix.as_bytes()[..prefix.len().min(15)];
    let mut threads = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let name = fs::read(process.path().join("comm")).unwrap_or_default();
        let number = process.file_name().to_string_lossy().parse();
        if let (true, Ok(number)) = (name.starts_with(prefix), number) {
            threads.push(Pid::from_raw(number));
        }
    }
    Ok(threads)
}

fn go_first(thread: Pid) -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the kernel reads the parameter during the call.
    let answer =
        unsafe { libc::sched_setscheduler(thread.as_raw(), libc::SCHED_FIFO, &raw const priority) };
    Errno::result(answer)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_crowd_has_left_is_taken_back() {
        let folder =
            std::env::temp_dir().join(format!("tidegate-crowd-settings-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let own = SETTINGS.map(|(_, value)| value.to_string());
        let all = || SETTINGS.map(|(name, _)| fs::read_to_string(folder.join(name)).unwrap());
        let set_and_drop = |before: [&str; 3]| {
            for ((name, _), value) in SETTINGS.iter().zip(before) {
                fs::write(folder.join(name), format!("{value}\n")).unwrap();
            }
            let polled = Polled::with_settings(&folder).unwrap();
            assert_eq!(all(), own);
            drop(polled);
            all()
        };
        assert_eq!(set_and_drop(["20000", "0", "0"]), ["20000", "0", "0"]);
        // An operator has its threads, too.
        assert_eq!(set_and_drop(["0", "2", "1"]), ["0", "2", "1"]);
        assert_eq!(set_and_drop(own.each_ref().map(String::as_str)), ["0", "0", "0"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_thread_whose_name_is_cut_in_a_character_may_be_looked_for() {
        assert_eq!(threads_of("aaaaaaaaaé").unwrap(), []);
    }

    #[test]
    fn another_interface_of_the_same_name_is_known() {
        let folder =
            std::env::temp_dir().join(format!("tidegate-crowd-polling-{}", std::process::id()));
        let interface = Interface {
            index: 12,
            name: "eth0".to_owned(),
            mac: [0x02, 0xfc, 0, 0, 0, 0x0a],
            receive_queues: 1,
            mtu: 1500,
            is_veth: true,
        };
        assert!(is_of(&folder, &interface).is_err(), "there is none");
        fs::create_dir_all(&folder).unwrap();
        for (index, mac, expected) in [
            ("12", "02:fc:00:00:00:0a", true),
            ("12", "02:fc:00:00:00:0b", false),
            ("2", "02:fc:00:00:00:0a", false),
        ] {
            fs::write(folder.join("ifindex"), format!("{index}\n")).unwrap();
            fs::write(folder.join("address"), format!("{mac}\n")).unwrap();
            assert_eq!(is_of(&folder, &interface).unwrap(), expected, "{index} {mac}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
