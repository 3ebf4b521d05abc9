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

use crate::segment::OptionKind::{self, End, Mss, Nop, SackPermitted, Timestamps, WindowScale};

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

static ALL: &[&Os] = &[
    &LINUX,
    &LINUX_PRE_6_5,
    &MACOS,
    &FREEBSD,
    &WINDOWS,
    &LINUX_2_4,
    &FREEBSD_5_3,
    &MACOS_10_3,
    &WINDOWS_NT,
    &WINDOWS_2000,
    &WIN_EMU,
    &JAMJOOM_FREEBSD,
    &JAMJOOM_LINUX_2_4,
    &HP_UX_11,
    &SOLARIS_2_7,
];

const LINUX_ORDER: &[OptionKind] = &[Mss, SackPermitted, Timestamps, Nop, WindowScale];
const BSD_ORDER: &[OptionKind] = &[Mss, Nop, WindowScale, Nop, Nop, Timestamps];
const WINDOWS_2000_ORDER: &[OptionKind] = &[Mss, Nop, Nop, SackPermitted];

const LINUX: Os = Os {
    name: "linux",
    syn_again_ms: &[1000, 2000, 3000, 4000, 5000, 7000, 11_000, 19_000, 35_000, 67_000],
    connect_gives_up_ms: 131_000,
    on_refusal: OnRefusal::Fail,
    mss: 1460,
    window_scale: Some(10),
    sack: true,
    timestamp_tick_us: Some(1000),
    syn_order: LINUX_ORDER,
    syn_window: 64_240,
    window: 64_512,
    ttl: 64,
    rto_min_ms: 200,
    rto_initial_ms: 3000,
    rto_max_ms: 120_000,
    data_again_max: 15,
    orphan_again_max: 8,
    tail_loss_probe: true,
    quick_acks: 16,
    delayed_ack_ms: 40,
    fin_wait_2_ms: 60_000,
    resets_unread: true,
};

const LINUX_PRE_6_5: Os = Os {
    name: "linux-pre-6.5",
    syn_again_ms: &[1000, 3000, 7000, 15_000, 31_000, 63_000],
    connect_gives_up_ms: 127_000,
    window_scale: Some(7),
    window: 64_256,
    ..LINUX
};

const MACOS: Os = Os {
    name: "macos",
    syn_again_ms: &[1000, 2000, 3000, 4000, 5000, 7000, 11_000, 19_000, 35_000, 67_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(6),
    syn_order: &[Mss, Nop, WindowScale, Nop, Nop, Timestamps, SackPermitted, End, End],
    syn_window: 65_535,
    window: 131_712,
    ..BSD
};

/// What today's BSDs have in common.
const BSD: Os = Os {
    name: "",
    rto_min_ms: 230,
    rto_initial_ms: 1000,
    rto_max_ms: 64_000,
    data_again_max: 12,
    orphan_again_max: 12,
    tail_loss_probe: false,
    quick_acks: 0,
    delayed_ack_ms: 40,
    ..LINUX
};

const FREEBSD: Os = Os {
    name: "freebsd",
    // Doubling from 1 s, and 0.2 s of slop on every step but the first.
    syn_again_ms: &[1000, 3200, 7400, 15_600, 31_800, 64_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(6),
    syn_order: &[Mss, Nop, WindowScale, SackPermitted, Timestamps],
    syn_window: 65_535,
    window: 65_664,
    ..BSD
};

const WINDOWS: Os = Os {
    name: "windows",
    syn_again_ms: &[1000, 3000, 7000, 15_000],
    connect_gives_up_ms: 21_000,
    on_refusal: OnRefusal::SynAgain { after_ms: 500, times: 4 },
    window_scale: Some(8),
    timestamp_tick_us: None,
    syn_order: &[Mss, Nop, WindowScale, Nop, Nop, SackPermitted],
    syn_window: 64_240,
    window: 262_656,
    ttl: 128,
    rto_min_ms: 300,
    rto_initial_ms: 1000,
    data_again_max: 5,
    orphan_again_max: 5,
    tail_loss_probe: true,
    quick_acks: 0,
    ..LINUX
};

const LINUX_2_4: Os = Os {
    name: "linux-2.4",
    syn_again_ms: &[3000, 9000, 21_000, 45_000, 93_000],
    connect_gives_up_ms: 189_000,
    window_scale: Some(0),
    timestamp_tick_us: Some(10_000),
    syn_window: 5840,
    window: 5840,
    tail_loss_probe: false,
    ..LINUX
};

/// Shukla's emulation of Windows: it "retransmits SYNs up to 3 times after receiving a RST", at
/// once.
const WIN_EMU: Os =
    Os { name: "win-emu", on_refusal: OnRefusal::SynAgain { after_ms: 0, times: 3 }, ..LINUX_2_4 };

const JAMJOOM_LINUX_2_4: Os = Os {
    name: "jamjoom-linux-2.4",
    syn_again_ms: &[3000, 9000, 21_000, 45_000],
    connect_gives_up_ms: 93_000,
    ..LINUX_2_4
};

const FREEBSD_5_3: Os = Os {
    name: "freebsd-5.3",
    syn_again_ms: &[3000, 6200, 9400, 12_600, 15_800, 22_000, 34_200, 58_400],
    connect_gives_up_ms: 75_000,
    window_scale: Some(1),
    sack: true,
    timestamp_tick_us: Some(1000),
    syn_order: &[Mss, Nop, WindowScale, Nop, Nop, Timestamps, SackPermitted, End],
    syn_window: 65_535,
    window: 65_534,
    delayed_ack_ms: 100,
    rto_initial_ms: 3000,
    ..BSD
};

const JAMJOOM_FREEBSD: Os = Os {
    name: "jamjoom-freebsd",
    syn_again_ms: &[3000, 9000, 21_000, 45_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(0),
    sack: false,
    timestamp_tick_us: Some(10_000),
    syn_order: BSD_ORDER,
    syn_window: 57_344,
    window: 57_344,
    ..FREEBSD_5_3
};

const MACOS_10_3: Os = Os {
    name: "macos-10.3",
    syn_again_ms: &[3000, 6000, 9000, 12_000, 15_000, 21_000, 33_000, 57_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(0),
    sack: false,
    timestamp_tick_us: Some(500_000),
    syn_order: BSD_ORDER,
    syn_window: 32_768,
    window: 33_304,
    ..FREEBSD_5_3
};

const WINDOWS_NT: Os = Os {
    name: "windows-nt",
    syn_again_ms: &[3000, 9000, 21_000],
    connect_gives_up_ms: 45_000,
    on_refusal: OnRefusal::SynAgain { after_ms: 0, times: 3 },
    window_scale: None,
    sack: false,
    syn_order: &[Mss],
    syn_window: 8192,
    window: 8760,
    rto_initial_ms: 3000,
    tail_loss_probe: false,
    delayed_ack_ms: 200,
    ..WINDOWS
};

const WINDOWS_2000: Os = Os {
    name: "windows-2000",
    syn_again_ms: &[3000, 9000],
    connect_gives_up_ms: 21_000,
    on_refusal: OnRefusal::SynAgain { after_ms: 0, times: 2 },
    sack: true,
    syn_order: WINDOWS_2000_ORDER,
    syn_window: 16_384,
    window: 17_520,
    ..WINDOWS_NT
};

const HP_UX_11: Os = Os {
    name: "hp-ux-11",
    syn_again_ms: &[2000, 3000, 9000, 21_000, 45_000],
    connect_gives_up_ms: 75_000,
    window_scale: Some(0),
    sack: false,
    timestamp_tick_us: None,
    syn_order: &[Mss, WindowScale, Nop],
    syn_window: 32_768,
    window: 32_768,
    rto_min_ms: 500,
    rto_initial_ms: 3000,
    delayed_ack_ms: 50,
    ..BSD
};

const SOLARIS_2_7: Os = Os {
    name: "solaris-2.7",
    syn_again_ms: &[3400, 10_100, 23_600, 50_600, 104_600, 164_600],
    connect_gives_up_ms: 180_000,
    window_scale: None,
    sack: false,
    timestamp_tick_us: None,
    syn_order: &[Mss],
    syn_window: 8760,
    window: 8760,
    ttl: 255,
    rto_min_ms: 400,
    rto_initial_ms: 3000,
    delayed_ack_ms: 50,
    ..BSD
};

#[cfg(test)]
mod tests {
    use super::*;

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
