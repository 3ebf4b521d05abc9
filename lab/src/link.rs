// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cable between two namespaces.

use std::fs;
use std::path::PathBuf;

use crate::error::LabError;
use crate::namespace::Namespace;
use crate::placement::{pin_task, put_first};

/// Polls without arrivals before the timer rests, and whoever sends next wakes the thread.
const EMPTY_POLLS: u32 = 10;

/// A veth pair, one end in each of two namespaces. It disappears with them.
#[derive(Clone, Debug)]
pub struct Link {
    a: End,
    b: End,
}

/// One end of a [`Link`].
#[derive(Clone, Debug)]
pub struct End {
    namespace: Namespace,
    name: String,
}

impl Link {
    /// Lays a cable from `a`, where it is called `name_a`, to `b`, where it is called `name_b`.
    /// Both ends are down and have no address yet.
    ///
    /// # Errors
    /// [`LabError::Command`] when `ip` refuses, such as for a name already used.
    pub fn between(
        a: &Namespace,
        name_a: &str,
        b: &Namespace,
        name_b: &str,
    ) -> Result<Self, LabError> {
        a.ip(&format!("link add name {name_a} type veth peer name {name_b} netns {}", b.tid()))?;
        Ok(Self { a: End::new(a, name_a), b: End::new(b, name_b) })
    }

    /// The end in the first namespace.
    #[must_use]
    pub fn a(&self) -> &End {
        &self.a
    }

    /// The end in the second namespace.
    #[must_use]
    pub fn b(&self) -> &End {
        &self.b
    }

    /// Sets both ends up.
    ///
    /// # Errors
    /// [`LabError::Command`] when `ip` refuses.
    pub fn up(&self) -> Result<(), LabError> {
        self.a.up()?;
        self.b.up()
    }

    /// Turns GRO on at both ends: see [`End::receive_offload`].
    ///
    /// # Errors
    /// As there.
    pub fn receive_offload(&self) -> Result<(), LabError> {
        self.a.receive_offload()?;
        self.b.receive_offload()
    }

    /// What its ends have told, since it was laid, of packets that were lost for want of room.
    ///
    /// # Errors
    /// As [`End::lost`].
    pub fn losses(&self) -> Result<Losses, LabError> {
        Ok(Losses { a: self.a.dropped()?, b: self.b.dropped()? })
    }
}

/// What the two ends of a [`Link`] have told of lost packets.
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    a: Dropped,
    b: Dropped,
}

impl Losses {
    /// Packets lost since an earlier look. Both ends may tell of the same one: of what finds the receiver's
    /// backlog full, say, a veth tells at either. Of each way it is as many as the end tells that tells of
    /// more.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        lost_between(self.a.since(earlier.a), self.b.since(earlier.b))
    }
}

/// Packets that one end did not get out, and that did not get in there.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    going: u64,
    coming: u64,
}

impl Dropped {
    fn since(self, earlier: Self) -> Self {
        Self { going: self.going - earlier.going, coming: self.coming - earlier.coming }
    }
}

fn lost_between(a: Dropped, b: Dropped) -> u64 {
    a.going.max(b.coming) + b.going.max(a.coming)
}

impl End {
    fn new(namespace: &Namespace, name: &str) -> Self {
        Self { namespace: namespace.clone(), name: name.to_owned() }
    }

    /// The interface's name inside its namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace it is in.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Adds an address with its prefix length: `10.0.0.1/24` or `fd00::1/64`.
    ///
    /// # Errors
    /// [`LabError::Command`] when `ip` refuses.
    pub fn add_address(&self, address: &str) -> Result<(), LabError> {
        // Duplicate address detection would make an IPv6 address unusable for its first second.
        let nodad = if address.contains(':') { " nodad" } else { "" };
        self.ip(&format!("address add {address} dev {}{nodad}", self.name))
    }

    /// Sets it up.
    ///
    /// # Errors
    /// [`LabError::Command`] when `ip` refuses.
    pub fn up(&self) -> Result<(), LabError> {
        self.ip(&format!("link set {} up", self.name))
    }

    /// Sets it down.
    ///
    /// # Errors
    /// [`LabError::Command`] when `ip` refuses.
    pub fn down(&self) -> Result<(), LabError> {
        self.ip(&format!("link set {} down", self.name))
    }

    /// Sets the largest packet, in bytes.
    ///
    /// # Errors
    /// [`LabError::Command`] when `ip` refuses.
    pub fn set_mtu(&self, mtu_bytes: u32) -> Result<(), LabError> {
        self.ip(&format!("link set {} mtu {mtu_bytes}", self.name))
    }

    /// Adds a route through this end: `("10.1.0.0/16", Some("10.0.0.2"))`, or, for a destination
    /// on the link itself, no gateway. `default` is a destination too.
    ///
    /// # Errors
    /// [`LabError::Command`] when `ip` refuses.
    pub fn add_route(&self, destination: &str, gateway: Option<&str>) -> Result<(), LabError> {
        let family = if destination.contains(':') || gateway.is_some_and(|via| via.contains(':')) {
            "-6"
        } else {
            "-4"
        };
        let via = gateway.map_or_else(String::new, |via| format!(" via {via}"));
        self.ip(&format!("{family} route add {destination}{via} dev {}", self.name))
    }

    /// Has packets that arrive here processed on one processor (receive packet steering).
    ///
    /// A veth hands a packet over on the *sender's* processor: without this, the clients' processor
    /// does the server's TCP work, and an overloaded server looks better than it is.
    ///
    /// # Errors
    /// [`LabError::File`] where the kernel has no RPS or `/sys` is not the namespace's own.
    pub fn receive_on(&self, cpu: usize) -> Result<(), LabError> {
        self.set("queues/rx-0/rps_cpus", &cpu_mask(cpu))
    }

    /// Turns GRO on: the end then polls for what comes, as it does for an XDP program, and takes the
    /// frames that the other end's program redirects (veth_set_features() and veth_xdp_xmit() of
    /// Linux 6.18).
    ///
    /// # Errors
    /// [`LabError::Start`] or [`LabError::Command`], from ethtool.
    pub fn receive_offload(&self) -> Result<(), LabError> {
        let command = self.namespace.command(&format!("ethtool -K {} gro on", self.name));
        self.namespace.output(command).map(drop)
    }

    /// Has a thread of the kernel poll for what arrives here, on one processor (threaded NAPI), and
    /// tells its number.
    ///
    /// Receive packet steering comes after the driver: a program at the driver runs on the sender's
    /// processor otherwise. Only an end with an XDP program polls for whatever comes. Each packet
    /// may wake the thread, and beside a busy program it waits for its turn: a server under load is
    /// slower so than by steering.
    ///
    /// # Errors
    /// [`LabError::File`] before Linux 5.12; [`LabError::Polling`] where nothing polls this end.
    pub fn poll_on(&self, cpu: usize) -> Result<i32, LabError> {
        let before = polling_threads(&self.name);
        self.set("threaded", "1")?;
        // Ends of the same name in other namespaces have threads of the same name.
        let mut threads = polling_threads(&self.name);
        threads.retain(|thread| !before.contains(thread));
        let [thread] = threads[..] else {
            self.set("threaded", "0")?;
            return Err(LabError::Polling { end: self.name.clone() });
        };
        pin_task(thread, cpu)?;
        Ok(thread)
    }

    /// As [`Self::poll_on`], on a timer and before every program: as a network card that moderates
    /// its interrupts. While packets come, who sends wakes nobody, and what has come meanwhile is
    /// worked on in one go. A veth has 256 places: at 1,000,000 packets a second they fill in 256 µs.
    ///
    /// # Errors
    /// As [`Self::poll_on`]; [`LabError::Placement`] where there are no real-time priorities.
    pub fn poll_every(&self, every_ns: u32, cpu: usize) -> Result<(), LabError> {
        let thread = self.poll_on(cpu)?;
        put_first(thread, cpu)?;
        // Linux, Documentation/networking/napi.rst: software interrupt coalescing.
        self.set("gro_flush_timeout", &every_ns.to_string())?;
        self.set("napi_defer_hard_irqs", &EMPTY_POLLS.to_string())
    }

    /// Packets that left or came here, and were lost for want of room, since it was made.
    ///
    /// # Errors
    /// [`LabError::File`], [`LabError::CounterFormat`].
    pub fn lost(&self) -> Result<u64, LabError> {
        self.dropped().map(|dropped| dropped.going + dropped.coming)
    }

    fn dropped(&self) -> Result<Dropped, LabError> {
        let count = |file: &'static str| {
            let line = self.namespace.read_file(self.file(file))?;
            let count = line.trim().parse::<u64>();
            count.map_err(|_| LabError::CounterFormat { file, line })
        };
        Ok(Dropped {
            going: count("statistics/tx_dropped")?,
            coming: count("statistics/rx_dropped")?,
        })
    }

    fn set(&self, name: &str, value: &str) -> Result<(), LabError> {
        self.namespace.write_file(self.file(name), value.to_owned())
    }

    /// Where the kernel has this of it.
    fn file(&self, name: &str) -> PathBuf {
        format!("/sys/class/net/{}/{name}", self.name).into()
    }

    fn ip(&self, words: &str) -> Result<(), LabError> {
        self.namespace.ip(words).map(drop)
    }
}

/// The kernel's threads that poll interfaces of this name.
fn polling_threads(end: &str) -> Vec<i32> {
    let prefix = format!("napi/{end}-");
    // The kernel keeps 15 bytes of a thread's name, whatever characters they are.
    let prefix = &prefix.as_bytes()[..prefix.len().min(15)];
    let everyone = fs::read_dir("/proc").into_iter().flatten().flatten();
    everyone
        .filter(|process| {
            let name = fs::read(process.path().join("comm")).unwrap_or_default();
            name.starts_with(prefix)
        })
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

/// The kernel's bitmap format: hexadecimal words of 32 bits, most significant first.
fn cpu_mask(cpu: usize) -> String {
    let mut words = vec![format!("{:x}", 1_u32 << (cpu % 32))];
    words.extend(std::iter::repeat_n("00000000".to_owned(), cpu / 32));
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::{Dropped, Losses, cpu_mask, lost_between, polling_threads};

    #[test]
    fn a_thread_whose_name_is_cut_in_a_character_may_be_looked_for() {
        assert_eq!(polling_threads("aaaaaaaaaé"), []);
    }

    #[test]
    fn a_packet_that_both_ends_tell_of_is_lost_once() {
        let [none, two, five] =
            [(0, 0), (2, 0), (0, 5)].map(|(going, coming)| Dropped { going, coming });
        assert_eq!(lost_between(two, Dropped { going: 0, coming: 2 }), 2);
        assert_eq!(lost_between(two, five), 5);
        assert_eq!(lost_between(five, none), 5);
        let both_ways = Dropped { going: 3, coming: 5 };
        assert_eq!(lost_between(both_ways, none), 8);
    }

    /// Of those before, the other end may have told.
    #[test]
    fn what_was_lost_since_is_told_by_whoever_tells_of_more_since() {
        let losses = |going, coming| Losses {
            a: Dropped { going, coming: 0 },
            b: Dropped { going: 0, coming },
        };
        assert_eq!(losses(500, 400).since(losses(500, 0)), 400);
        assert_eq!(losses(502, 402).since(losses(500, 400)), 2);
    }

    #[test]
    fn masks_are_words_of_32_processors() {
        assert_eq!(cpu_mask(0), "1");
        assert_eq!(cpu_mask(31), "80000000");
        assert_eq!(cpu_mask(33), "2,00000000");
    }
}
