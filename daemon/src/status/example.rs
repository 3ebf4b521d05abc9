// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guard with one listening socket, for the tests of whoever tells of one.

use super::{FinStatus, GuardStatus, ListenerStatus, OverloadStatus, Queue, QueueDrops, Verdicts};

/// A reason, a verdict, and so many packets.
pub type Counted = (&'static str, &'static str, u64);

/// Packets by reason and verdict.
pub fn verdicts(counted: &[Counted]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for (reason, verdict, count) in counted {
        verdicts.entry(*reason).or_default().insert(*verdict, *count);
    }
    verdicts
}

/// A crowd has come to stay.
pub fn persistent() -> OverloadStatus {
    OverloadStatus {
        phase: "persistent",
        new_per_s: Some(9000.0),
        drain_per_s: Some(6500.0),
        waiting: 700,
        may_wait: 800,
        places: Some(16),
        round_trip_ms: 0.1,
        behind: false,
        waiting_inside: Some(3),
        waiting_limit: None,
    }
}

/// A socket before which it stands.
pub fn listener(counted: &[Counted]) -> ListenerStatus {
    ListenerStatus {
        address: "192.0.2.1:443".to_owned(),
        socket_cookie: 7,
        listen_queue: Queue { length: 12, limit: 511 },
        places: None,
        backlog_before: None,
        syn_queue: Queue { length: 3, limit: 511 },
        kernel_drops: 0,
        queue_drops: QueueDrops::default(),
        verdicts: verdicts(counted),
        overload: Some(persistent()),
        accepts: None,
        fair_share: None,
        shares_memory: false,
    }
}

/// The guard of these sockets.
pub fn guard(listeners: Vec<ListenerStatus>, counted: &[Counted]) -> GuardStatus {
    GuardStatus {
        port: 443,
        address: None,
        mechanism: "auto".to_owned(),
        hook: "driver",
        syn_us: Some(0.5),
        clients_speak_first: Some(true),
        queue_drops: QueueDrops::default(),
        verdicts: verdicts(counted),
        fin: FinStatus { rule: "half-close", ended: 0, left_alone: 0 },
        notice: None,
        reservations_cleaned: 0,
        shed: None,
        is_path: false,
        listeners,
    }
}
