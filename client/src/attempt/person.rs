// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all attempts of a kind have in common.

use rand_core::Rng;
use tidegate_policy::raw::tg_tw_rules;

use super::Close;
use crate::connection::Connection;
use crate::http::Requests;
use crate::os::Os;
use crate::segment::Out;

/// What all attempts of a kind have in common. The driver holds it and shows it at each call.
#[derive(Clone, Debug)]
pub struct Person {
    /// Its operating system.
    pub os: &'static Os,
    /// The most that a packet can carry, in bytes: 1460 on Ethernet over IPv4, 1440 over IPv6.
    pub mss: u16,
    /// How long it waits for all replies, in ns from its actual start. One timeout lasts for the
    /// whole attempt.
    pub timeout_ns: u64,
    /// How it ends its side.
    pub close: Close,
    /// What it wants of TIME-WAIT, as the client's end of connections (Faber, sections 3 and 4.1);
    /// all zero: TCP as it is today.
    pub time_wait: tg_tw_rules,
    /// What it may ask for.
    pub requests: Requests,
}

impl Person {
    /// Sends the first SYN of a connection.
    pub(super) fn connect(
        &self,
        now_ns: u64,
        rng: &mut impl Rng,
        out: &mut impl Out,
    ) -> Connection {
        Connection::start(self.os, self.mss, &self.time_wait, now_ns, rng, out)
    }
}
