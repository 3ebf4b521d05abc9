// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose TCP the server has, and how it is set.
//!
//! # FreeBSD, 4.5 to 8
//! - **SYNs.** They go to a SYN cache, whose length has nothing to do with the backlog: 512 buckets of
//!   30, at most 15,360 entries (J. Lemon, *Resisting SYN flood DoS attacks with a SYN cache*, BSDCon
//!   2002; `tcp_syncache.c`). When it is full, the newcomer's SYN/ACK is a cookie and nothing else; in
//!   FreeBSD the oldest of a bucket makes room, and lives on as the cookie that every SYN/ACK is.
//!   Either way somebody has no SYN/ACK sent again, and nobody is refused.
//! - **A full listen queue** drops SYNs in silence: `so_qlen <= so_qlimit` in `tcp_input()`; Shukla,
//!   section 2.1.1, of the same care in FreeBSD.
//! - **ACKs** find more room than SYNs do: `sonewconn()` refuses beyond one and a half backlogs
//!   (listen(2); netstat shows 193 of 128). Then the client gets a RST (Shukla, section 4.1.2; the
//!   sysctl `tcp.syncache.rst_on_sock_fail`, which is 1).
//! - **SYN/ACKs** are sent again three times, after 3, 6 and 12 s (`SYNCACHE_MAXREXMTS`).
//!
//! # Windows NT 4 and 2000 Server
//! - **A full listen queue** refuses SYNs with RST (Microsoft Knowledge Base 113576), and so is an ACK
//!   that finds it full (Shukla, sections 2.1.1 and 4.1.2): the thesis' `abort rst-syn`. The longest
//!   queue is 200 (the same article).
//! - **Half-open connections** have no limit: `TcpMaxHalfOpen` is read only where `SynAttackProtect`
//!   is set, which it is not as installed.
//! - **SYN/ACKs** are sent again twice, after 3 and 6 s (`TcpMaxConnectResponseRetransmissions`).

use serde::{Deserialize, Serialize};

use crate::machine::Program;

/// Whose TCP the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// Linux 2.4: a SYN queue of its own length, three quarters of which are used; a full listen
    /// queue refuses SYNs only while two requests or more are young (Shukla, section 2.1.1).
    #[serde(rename = "linux-2.4")]
    Linux24,
    /// Linux 4.10 to 6.18: a full listen queue refuses every SYN, and the backlog bounds the SYN queue.
    #[serde(rename = "linux-6")]
    Linux6,
    /// FreeBSD 4.5 to 8: a SYN cache that the backlog does not bound; a full listen queue is silent to
    /// SYNs, and answers ACKs beyond one and a half backlogs with RST.
    #[serde(rename = "bsd")]
    Bsd,
    /// Windows NT 4 and 2000 Server: whoever finds the listen queue full gets a RST.
    #[serde(rename = "windows")]
    Windows,
}

/// `net.inet.tcp.syncache.cachelimit`: 512 buckets of 30.
const SYN_CACHE: u32 = 512 * 30;

impl Profile {
    /// When a SYN/ACK is first sent again, in ns; then after twice as long each time.
    pub(crate) fn syn_ack_again_ns(self) -> u64 {
        match self {
            Self::Linux24 | Self::Bsd | Self::Windows => 3_000_000_000,
            Self::Linux6 => 1_000_000_000,
        }
    }

    /// How often a SYN/ACK is sent again at most: `tcp_synack_retries` of every Linux.
    pub(crate) fn syn_acks_again(self) -> u8 {
        match self {
            Self::Linux24 | Self::Linux6 => 5,
            Self::Bsd => 3,
            Self::Windows => 2,
        }
    }

    /// How many connections wait for accept() at most, one more than that, when an ACK completes
    /// another; `backlog` is what SYNs see.
    pub(crate) fn listen_max_at_ack(self, backlog: u32) -> u32 {
        match self {
            Self::Linux24 | Self::Linux6 | Self::Windows => backlog,
            Self::Bsd => backlog.saturating_mul(3) / 2,
        }
    }

    /// Whether a SYN that finds no room is answered with RST.
    pub(crate) fn refuses_syns(self) -> bool {
        self == Self::Windows
    }

    /// As a machine's file has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linux24 => "linux-2.4",
            Self::Linux6 => "linux-6",
            Self::Bsd => "bsd",
            Self::Windows => "windows",
        }
    }

    /// Whether the hook before TCP is inside of it, and what ends there has been counted, as in
    /// Shukla's kernel. Today's is netfilter's local-in, which is one step before.
    pub(crate) fn has_hook_in_tcp(self) -> bool {
        self != Self::Linux6
    }

    pub(crate) fn window(self) -> u32 {
        match self {
            Self::Linux24 => 5792,
            Self::Linux6 => 65_160,
            Self::Bsd => 65_535,
            Self::Windows => 17_520,
        }
    }

    pub(crate) fn window_shift(self) -> u8 {
        match self {
            Self::Linux24 | Self::Bsd | Self::Windows => 0,
            Self::Linux6 => 7,
        }
    }

    pub(crate) fn tick_ns(self) -> u64 {
        match self {
            Self::Linux24 | Self::Bsd => 10_000_000,
            Self::Linux6 => 1_000_000,
            Self::Windows => 100_000_000,
        }
    }

    /// The listen queue that a program gets which asks for one of so many places (`SOMAXCONN` of Linux 2.4
    /// and FreeBSD). Linux cuts it in sys_listen(), which is for applications: the papers' TUX is in the
    /// kernel, and asks TCP itself.
    pub(crate) fn backlog_given(self, program: Program, asked: u32) -> u32 {
        match self {
            Self::Linux24 if program == Program::Tux => asked,
            Self::Linux24 | Self::Bsd => asked.min(128),
            Self::Linux6 => asked.min(65_535),
            Self::Windows => asked.min(200),
        }
    }

    /// Segments under way at first (`tcp_init_cwnd()` of Linux 2.4; RFC 3390; RFC 2581; RFC 6928).
    pub(crate) fn first_flight(self) -> u16 {
        match self {
            Self::Linux24 | Self::Bsd => 3,
            Self::Linux6 => 10,
            Self::Windows => 2,
        }
    }

    /// The clock in its segments then.
    pub(crate) fn clock(self, now_ns: u64) -> u32 {
        (now_ns / self.tick_ns()) as u32
    }

    /// Segments that one frame carries down to the card (segmentation offload).
    pub(crate) fn segments_a_frame(self) -> u32 {
        match self {
            Self::Linux24 | Self::Bsd | Self::Windows => 1,
            Self::Linux6 => 44,
        }
    }

    /// What a connection may have handed over that is not acknowledged, in bytes: between the
    /// second and the third number of `tcp_wmem`, where autotuning puts it on a short way; FreeBSD's
    /// `net.inet.tcp.sendspace`; Windows' `DefaultSendWindow`.
    pub(crate) fn send_buffer(self) -> u32 {
        match self {
            Self::Linux24 => 65_536,
            Self::Linux6 => 262_144,
            Self::Bsd => 32_768,
            Self::Windows => 8_192,
        }
    }
}

impl Profile {
    /// What a TIME-WAIT block takes, in bytes, where it is known: `tw_sock_TCP` of Linux 6.18 and
    /// `tcp_tw_bucket` of Linux 2.4.19 on a Pentium III or 4, by their `/proc/slabinfo`.
    pub(crate) fn time_wait_bytes(self) -> Option<u64> {
        match self {
            Self::Linux24 => Some(128),
            Self::Linux6 => Some(256),
            Self::Bsd | Self::Windows => None,
        }
    }

    /// What a socket takes with all its state, in bytes, where it is known: `TCP` and `sock` of the
    /// same.
    pub(crate) fn socket_bytes(self) -> Option<u64> {
        match self {
            Self::Linux24 => Some(832),
            Self::Linux6 => Some(2368),
            Self::Bsd | Self::Windows => None,
        }
    }
}

/// What an administrator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `net.ipv4.tcp_max_syn_backlog`; `net.inet.tcp.syncache.cachelimit`.
    pub syn_max: u32,
    /// `net.ipv4.tcp_syncookies`: 0, 1 or 2; `net.inet.tcp.syncookies`.
    pub syncookies: u32,
    /// `net.ipv4.tcp_abort_on_overflow`; `net.inet.tcp.syncache.rst_on_sock_fail`.
    pub abort_on_overflow: bool,
}

impl Kernel {
    /// As it comes. Linux 2.4's SYN queue is the papers' (Shukla, section 3.1.1).
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let (syn_max, syncookies, abort_on_overflow) = match profile {
            Profile::Linux24 => (1024, 0, false),
            Profile::Linux6 => (4096, 1, false),
            Profile::Bsd => (SYN_CACHE, 1, true),
            Profile::Windows => (u32::MAX, 0, true),
        };
        Self { syn_max, syncookies, abort_on_overflow }
    }

    /// What of it this profile's rules look at: Windows has no cookies, and only today's Linux gives
    /// them for every SYN.
    pub(crate) fn heeded_by(self, profile: Profile) -> Self {
        let syncookies = match profile {
            Profile::Linux6 => self.syncookies,
            Profile::Linux24 | Profile::Bsd => self.syncookies.min(1),
            Profile::Windows => 0,
        };
        Self { syncookies, ..self }
    }
}
