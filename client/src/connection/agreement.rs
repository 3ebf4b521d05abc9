// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is to hold TIME-WAIT, as the client has it (Faber, sections 3 and 4.1): its offer, what is
//! agreed, and what becomes of the pair in the end. The policy decides each; this carries it out.

use tidegate_policy::raw::{TG_TW_IPV6_BYTES, tg_tw_rules};
use tidegate_policy::time_wait::{self, Close, End, Ending, Verdict};

use super::{Connection, Ended};
use crate::pairs::LastNumbers;
use crate::segment::{Flags, Out};

/// What a client's host holds of a connection that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Nothing.
    #[default]
    Nothing,
    /// TIME-WAIT, as TCP has it: none of its sockets gets the addresses and ports again.
    Own,
    /// Its TCP is CLOSED, and the pair is among the host's [`Pairs`](crate::Pairs).
    Pair,
}

/// What the ends have said about TIME-WAIT.
#[derive(Debug)]
pub(super) struct Agreement {
    /// Whom the SYN names; then who is agreed on.
    named: Option<End>,
    wait: Wait,
    /// Some of those below: an attempt in flight is to be small.
    bits: u8,
}

const INSISTS: u8 = 1;
const SWAPS: u8 = 2;
/// The server may not know yet that the client has agreed.
const SAYS: u8 = 4;

impl Agreement {
    /// Step 1.
    pub(super) fn offer(rules: &tg_tw_rules, out: &mut impl Out) -> Self {
        let speaks = time_wait::offer(rules, true).is_some();
        let insists = if rules.insist != 0 { INSISTS } else { 0 };
        let swaps = if rules.close_swap != 0 { SWAPS } else { 0 };
        Self {
            named: time_wait::offer(rules, speaks && out.can_hold()),
            wait: Wait::Nothing,
            bits: insists | swaps,
        }
    }

    /// Whom the SYN names.
    pub(super) fn offered(&self) -> Option<End> {
        self.named
    }

    /// Step 3: whether the server's answer is acceptable.
    pub(super) fn accepts(&mut self, answered: Option<End>, out: &mut impl Out) -> bool {
        let offered = self.named;
        let insist = u32::from(self.has(INSISTS));
        let rules = tg_tw_rules { insist, ..time_wait::negotiate(offered) };
        let can_hold = offered.is_some() && answered.is_some() && out.can_hold();
        let verdict = time_wait::judge(&rules, offered, answered, can_hold);
        self.named = answered.filter(|_| verdict == Verdict::Agree);
        self.bits |= SAYS;
        verdict != Verdict::Reset
    }

    /// A segment of the server's came: it has seen one that says so.
    pub(super) fn is_heard(&mut self) {
        self.bits &= !SAYS;
    }

    /// Whom segments name, once it is agreed.
    pub(super) fn said(&self) -> Option<End> {
        self.named.filter(|_| self.has(SAYS))
    }

    /// What the option takes of a segment at most, in bytes: that of an IPv6 address is longest.
    pub(super) fn option_bytes(&self) -> u32 {
        if self.said().is_some() { TG_TW_IPV6_BYTES } else { 0 }
    }

    fn has(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }
}

impl Connection {
    /// What the client's host holds of it, when it has ended.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.agreement.wait
    }

    /// Both sides have closed, and each knows it.
    pub(super) fn is_over(&mut self, now_ns: u64, out: &mut impl Out) {
        self.ended = Some(Ended::Closed { client_first: self.closed_first });
        match self.ending() {
            Ending::Usual if self.closed_first => self.agreement.wait = Wait::Own,
            Ending::Usual | Ending::Leave => {}
            Ending::Hold => self.hold(false, now_ns, out),
            Ending::Swap => {
                self.hold(true, now_ns, out);
                // Where there is no room, TIME-WAIT stays where it is.
                if self.agreement.wait == Wait::Pair {
                    let rst = self.segment(now_ns, Flags::RST, self.sent_max, b"");
                    out.send(rst);
                }
            }
        }
    }

    /// It ends without the last acknowledgement. In LAST-ACK the server is CLOSED where so agreed,
    /// and counts on us whatever ended it.
    pub(super) fn is_cut(&mut self, ended: Ended, now_ns: u64, out: &mut impl Out) {
        self.ended = Some(ended);
        let is_last_ack = self.fin_received && self.fin_is_sent() && !self.closed_first;
        if is_last_ack && self.ending() == Ending::Hold {
            self.hold(false, now_ns, out);
        }
    }

    fn ending(&self) -> Ending {
        let close = if self.closed_first { Close::Active } else { Close::Passive };
        time_wait::end(self.agreement.named, End::Client, close, self.agreement.has(SWAPS))
    }

    fn hold(&mut self, swapped: bool, now_ns: u64, out: &mut impl Out) {
        let last = LastNumbers {
            sent: self.sent_max,
            expected: self.expected,
            clocks: self.has_clocks.then(|| (self.clock(now_ns), self.server_clock)),
            swapped,
        };
        if out.hold(&last) {
            self.agreement.wait = Wait::Pair;
        }
    }
}
