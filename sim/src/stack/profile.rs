// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose TCP the server has, and how it is set.

use serde::{Deserialize, Serialize};

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
}

impl Profile {
    /// When a SYN/ACK is first sent again, in ns; then after twice as long each time.
    pub(crate) fn syn_ack_again_ns(self) -> u64 {
        match self {
            Self::Linux24 => 3_000_000_000,
            Self::Linux6 => 1_000_000_000,
        }
    }

    pub(crate) fn window(self) -> u32 {
        match self {
            Self::Linux24 => 5792,
            Self::Linux6 => 65_160,
        }
    }

    pub(crate) fn window_shift(self) -> u8 {
        match self {
            Self::Linux24 => 0,
            Self::Linux6 => 7,
        }
    }

    pub(crate) fn tick_ns(self) -> u64 {
        match self {
            Self::Linux24 => 10_000_000,
            Self::Linux6 => 1_000_000,
        }
    }

    /// The longest listen queue that an application gets (`SOMAXCONN` of Linux 2.4).
    pub(crate) fn backlog_max(self) -> u32 {
        match self {
            Self::Linux24 => 128,
            Self::Linux6 => 65_535,
        }
    }

    /// Segments under way at first (`tcp_init_cwnd()` of Linux 2.4; RFC 6928).
    pub(crate) fn first_flight(self) -> u16 {
        match self {
            Self::Linux24 => 3,
            Self::Linux6 => 10,
        }
    }

    /// Segments that one frame carries down to the card (segmentation offload).
    pub(crate) fn segments_a_frame(self) -> u32 {
        match self {
            Self::Linux24 => 1,
            Self::Linux6 => 44,
        }
    }

    /// What a connection may have handed over that is not acknowledged, in bytes: between the
    /// second and the third number of `tcp_wmem`, where autotuning puts it on a short way.
    pub(crate) fn send_buffer(self) -> u32 {
        match self {
            Self::Linux24 => 65_536,
            Self::Linux6 => 262_144,
        }
    }
}

/// What an administrator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `net.ipv4.tcp_max_syn_backlog`.
    pub syn_max: u32,
    /// `net.ipv4.tcp_syncookies`: 0, 1 or 2.
    pub syncookies: u32,
    /// `net.ipv4.tcp_abort_on_overflow`.
    pub abort_on_overflow: bool,
}

impl Kernel {
    /// As it comes. Linux 2.4's SYN queue is the papers' (Shukla, section 3.1.1).
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let (syn_max, syncookies) = match profile {
            Profile::Linux24 => (1024, 0),
            Profile::Linux6 => (4096, 1),
        };
        Self { syn_max, syncookies, abort_on_overflow: false }
    }
}
