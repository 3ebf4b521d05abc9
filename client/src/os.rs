// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How operating systems behave as TCP clients.
//!
//! | name | system | SYN times from |
//! |---|---|---|
//! | `linux` | Linux 6.5 and later | measured |
//! | `linux-pre-6.5` | Linux 3.1 to 6.4 | measured |
//! | `macos` | macOS, iOS of today | measured |
//! | `freebsd` | FreeBSD 13 and later | measured |
//! | `windows` | Windows 10, 11, Server | measured |
//! | `linux-2.4` | Linux 2.4 and 2.6 | Shukla, table 4.3 |
//! | `freebsd-5.3` | FreeBSD 5.3 | Shukla, table 4.3 |
//! | `macos-10.3` | Mac OS X 10.3 | Shukla, table 4.3 |
//! | `windows-nt` | Windows 9x, NT | Shukla, table 4.3; Jamjoom, table 1 |
//! | `windows-2000` | Windows 2000, XP | Shukla, table 4.3; Jamjoom, table 1 |
//! | `win-emu` | Linux 2.4, sending SYN again on RST as Windows | Shukla, section 4.1.5 |
//! | `jamjoom-freebsd` | FreeBSD of 2003 | Jamjoom, table 1 |
//! | `jamjoom-linux-2.4` | Linux 2.2 and 2.4 | Jamjoom, table 1 |
//! | `hp-ux-11` | HP-UX 11 | Jamjoom, table 1 |
//! | `solaris-2.7` | Solaris 2.7 | Jamjoom, table 1 |
//!
//! "Shukla" is A. Shukla, *TCP Connection Management Mechanisms for Improving Internet Server
//! Performance* (2005); "Jamjoom" is H. Jamjoom and K. Shin, *Persistent Dropping: An Efficient
//! Control of Traffic Aggregates* (2003). The two papers differ about Linux and FreeBSD; Shukla
//! says so, and both are here. Shukla's table has the steps between SYNs, and this one has times
//! after the first. Neither says when connect() gives up: where nothing better is known, it is
//! when the next SYN would have been due. Neither tells options, windows and TTLs: those of Linux,
//! Windows, FreeBSD of today and macOS agree with the fingerprints of p0f 3, the others of that
//! time are from older lists of its kind.

mod table;

use crate::segment::OptionKind;
use table::{ALL, LINUX};

/// What a RST does that answers a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefusal {
    /// connect() fails at once (RFC 9293, section 3.10.7.3).
    Fail,
    /// The SYN is sent again; connect() fails at the RST after the last time.
    SynAgain {
        /// How long after the RST, in ms.
        after_ms: u32,
        /// How often.
        times: u8,
    },
}

/// An operating system as a TCP client.
#[derive(Debug, PartialEq, Eq)]
pub struct Os {
    /// Its name in scenarios.
    pub name: &'static str,
    /// When SYNs are sent again while nothing answers, in ms after the first, rising.
    pub syn_again_ms: &'static [u32],
    /// When connect() gives up, in ms after the first SYN.
    pub connect_gives_up_ms: u32,
    /// What a RST does that answers a SYN.
    pub on_refusal: OnRefusal,
    /// The MSS it offers on Ethernet over IPv4, in bytes.
    pub mss: u16,
    /// The window scale it offers.
    pub window_scale: Option<u8>,
    /// Whether it offers selective acknowledgements.
    pub sack: bool,
    /// The tick of its timestamps, in µs, when it offers them.
    pub timestamp_tick_us: Option<u32>,
    /// The order of its options in a SYN.
    pub syn_order: &'static [OptionKind],
    /// The window in its SYN, in bytes.
    pub syn_window: u16,
    /// The window it offers afterwards, in bytes, before scaling; without scaling at most 65535.
    pub window: u32,
    /// The time to live of its packets.
    pub ttl: u8,
    /// The least retransmission timeout for data, in ms.
    pub rto_min_ms: u32,
    /// The retransmission timeout for data while no round trip has been measured, in ms.
    pub rto_initial_ms: u32,
    /// The longest retransmission timeout, in ms.
    pub rto_max_ms: u32,
    /// How often data is sent again before the connection is given up.
    pub data_again_max: u8,
    /// The same when the application has closed already.
    pub orphan_again_max: u8,
    /// Whether the first retransmission of a flight's end is a probe that does not double the
    /// timeout (tail loss probe, RFC 8985 section 7); it needs SACK on both sides.
    pub tail_loss_probe: bool,
    /// Whether, behind data that was sent again, a FIN waits until that is acknowledged. Linux counts segments,
    /// and since 6.10 a FIN among them; before it made an exception. Others count bytes (RFC 5681,
    /// section 3.1), and a FIN has none.
    pub fin_waits: bool,
    /// How many segments of data are acknowledged at once before acknowledgements may wait.
    pub quick_acks: u8,
    /// How long an acknowledgement may wait, in ms.
    pub delayed_ack_ms: u32,
    /// How long it waits for the server's FIN after close(), in ms.
    pub fin_wait_2_ms: u32,
    /// Whether closing with unread data resets (RFC 2525, section 2.17).
    pub resets_unread: bool,
}

/// There is no system of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no operating system `{name}` is known: give one of {}", known())]
pub struct UnknownOs {
    /// What was given.
    pub name: String,
}

fn known() -> String {
    let names: Vec<&str> = Os::all().iter().map(|os| os.name).collect();
    names.join(", ")
}

impl Os {
    /// The system of this name.
    ///
    /// # Errors
    /// [`UnknownOs`], which lists the names there are.
    pub fn named(name: &str) -> Result<&'static Self, UnknownOs> {
        let found = Self::all().iter().find(|os| os.name == name);
        found.copied().ok_or_else(|| UnknownOs { name: name.to_owned() })
    }

    /// All of them, those of today first.
    #[must_use]
    pub fn all() -> &'static [&'static Self] {
        ALL
    }

    /// Linux of today.
    #[must_use]
    pub fn linux() -> &'static Self {
        &LINUX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::OptionKind::{SackPermitted, Timestamps, WindowScale};

    #[test]
    fn every_profile_is_possible_and_has_its_own_name() {
        for os in Os::all() {
            assert_eq!(Os::named(os.name), Ok(*os));
            let name = os.name;
            assert!(os.syn_again_ms.is_sorted(), "{name}");
            let last_ms = os.syn_again_ms.last().unwrap();
            assert!(os.connect_gives_up_ms > *last_ms, "{name}");
            let most = 0xffff << os.window_scale.unwrap_or(0);
            assert!(os.window <= most, "{name}");
            let scale = os.window_scale.unwrap_or(0);
            assert_eq!(os.window >> scale << scale, os.window, "{name}");
            assert_eq!(os.sack, os.syn_order.contains(&SackPermitted), "{name}");
            assert_eq!(os.window_scale.is_some(), os.syn_order.contains(&WindowScale), "{name}");
            assert_eq!(
                os.timestamp_tick_us.is_some(),
                os.syn_order.contains(&Timestamps),
                "{name}"
            );
        }
    }

    #[test]
    fn steps_of_shuklas_table_add_up() {
        let steps_ms = |name| {
            let times_ms = Os::named(name).unwrap().syn_again_ms;
            let before = std::iter::once(&0).chain(times_ms);
            times_ms.iter().zip(before).map(|(at, before)| at - before).collect::<Vec<u32>>()
        };
        assert_eq!(steps_ms("linux-2.4"), [3000, 6000, 12_000, 24_000, 48_000]);
        let freebsd = [3000, 3200, 3200, 3200, 3200, 6200, 12_200, 24_200];
        assert_eq!(steps_ms("freebsd-5.3"), freebsd);
        let macos = [3000, 3000, 3000, 3000, 3000, 6000, 12_000, 24_000];
        assert_eq!(steps_ms("macos-10.3"), macos);
        assert_eq!(steps_ms("windows-nt"), [3000, 6000, 12_000]);
        assert_eq!(steps_ms("windows-2000"), [3000, 6000]);
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let message = Os::named("plan-9").unwrap_err().to_string();
        assert!(message.contains("`plan-9`"), "{message}");
        for os in Os::all() {
            assert!(message.contains(os.name), "{message}");
        }
    }
}
