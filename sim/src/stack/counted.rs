// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was counted at the server.

use tidegate_policy::raw::{tg_counters, tg_decision};

/// What was counted at the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// By reason and verdict, as the datapath counts.
    pub judged: tg_counters,
    /// The kernel's `ListenOverflows`.
    pub listen_overflows: u64,
    /// The kernel's `ListenDrops`.
    pub listen_drops: u64,
    /// Packets that the ring had no room for.
    pub ring_lost: u64,
    /// Segments that the server's TCP took in: none that a hook before it, or a held pair, has ended.
    pub received: u64,
    /// Connections that went to TIME-WAIT.
    pub time_waits: u64,
    /// Those that are there now.
    pub time_waits_held: u64,
    /// Connections whose TIME-WAIT is left to the client, by agreement.
    pub time_waits_left: u64,
    /// Connections that it closed second and came to hold blocked, by agreement.
    pub pairs: u64,
    /// Those that it holds now.
    pub pairs_held: u64,
    /// The most in TIME-WAIT at one time, its TCP's and these together: begins anew with the time that counts.
    pub waiting_max: u64,
    /// Half-open requests whose places were taken back.
    pub cleaned: u64,
    /// How often `auto` came to see an overload in another phase.
    pub phase_changes: u64,
}

impl Counted {
    pub(crate) fn judge(&mut self, decision: tg_decision) {
        self.judged.packets[decision.reason as usize][decision.verdict as usize] += 1;
    }

    #[cfg(test)]
    pub(crate) fn dropped(&self, reason: u32) -> u64 {
        tidegate_policy::queue_drops::dropped(&self.judged, reason)
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        let then = earlier.judged.packets.iter().flatten();
        for (now, then) in since.judged.packets.iter_mut().flatten().zip(then) {
            *now -= then;
        }
        since.listen_overflows -= earlier.listen_overflows;
        since.listen_drops -= earlier.listen_drops;
        since.ring_lost -= earlier.ring_lost;
        since.received -= earlier.received;
        since.time_waits -= earlier.time_waits;
        since.time_waits_left -= earlier.time_waits_left;
        since.pairs -= earlier.pairs;
        since.cleaned -= earlier.cleaned;
        since.phase_changes -= earlier.phase_changes;
        since
    }
}
