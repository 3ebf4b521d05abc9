// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One daemon a network namespace: a locked file that holds its process number.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidegate_datapath::pins::namespace_name;

use crate::failure::{Failure, Result};

const FOLDER: &str = "/run/tidegate";
/// A daemon that was asked to stop has this long.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The claim of the running daemon; given up when the process ends, however it ends.
pub struct Instance {
    _lock: Flock<File>,
    path: PathBuf,
}

fn path() -> Result<PathBuf> {
    Ok(PathBuf::from(FOLDER).join(format!("{}.pid", namespace_name()?)))
}

fn file_failure(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Failure + '_ {
    move |source| Failure::File {
        path: path.to_owned(),
        source,
        fix: "tidegate keeps its process number there; make the folder writable".to_owned(),
    }
}

impl Instance {
    /// Claims this namespace, or says which process has it.
    pub fn claim() -> Result<Self> {
        let path = path()?;
        fs::create_dir_all(FOLDER).map_err(file_failure(&path))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(file_failure(&path))?;
        let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            let who = running().ok().flatten().map_or(String::new(), |p| format!(" (process {p})"));
            Failure::argument(
                format!("tidegate runs here already{who}"),
                "change its configuration and send it SIGHUP, or `tidegate stop` it first",
            )
        })?;
        lock.set_len(0).map_err(file_failure(&path))?;
        writeln!(lock, "{}", std::process::id()).map_err(file_failure(&path))?;
        Ok(Instance { _lock: lock, path })
    }

    /// Gives the claim up at a clean stop.
    pub fn release(self) {
        let _ = fs::remove_file(&self.path);
        // Gone only where no other namespace's daemon has its file there.
        let _ = fs::remove_dir(FOLDER);
    }
}

/// The process number of the daemon that runs in this namespace.
pub fn running() -> Result<Option<i32>> {
    let path = path()?;
    let Ok(mut file) = File::open(&path) else { return Ok(None) };
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(file_failure(&path))?;
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(None),
        Err(_) => Ok(text.trim().parse().ok()),
    }
}

/// Ends the daemon of this namespace and waits for it. `false`: none ran.
pub fn stop() -> Result<bool> {
    let Some(pid) = running()? else { return Ok(false) };
    kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(|e| {
        Failure::argument(
            format!("cannot end process {pid}: {e}"),
            "run as the user that started it",
        )
    })?;
    let deadline = Instant::now() + STOP_WITHIN;
    while running()?.is_some() {
        if Instant::now() > deadline {
            return Err(Failure::argument(
                format!("process {pid} did not end within {} s", STOP_WITHIN.as_secs()),
                "look at what it does, then end it with kill -9 and run `tidegate stop` again",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

/// Removes what a daemon left that was killed.
pub fn forget() -> Result<()> {
    let _ = fs::remove_file(path()?);
    let _ = fs::remove_dir(FOLDER);
    Ok(())
}
