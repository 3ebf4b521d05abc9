// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `status` in Prometheus' words. Names and units are those of its "Metric and label naming"; labels
//! are few, and last: sockets that share an address are added up, for their cookies would be new with
//! each start of an application.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tidegate_policy::names::PHASES;

use crate::agent::AgentStatus;
use crate::status::shed::ShedStatus;
use crate::status::{GuardStatus, ListenerStatus, OverloadStatus, Status, Verdicts};
use crate::time_wait::TimeWaitStatus;

type Labels = Vec<(&'static str, String)>;

/// Counted since the guard stands.
#[derive(Default)]
struct Counted(Family<Labels, Counter>);

/// As it is now.
#[derive(Default)]
struct Now(Family<Labels, Gauge<f64, AtomicU64>>);

impl Counted {
    fn add(&self, labels: Labels, number: u64) {
        self.0.get_or_create(&labels).inc_by(number);
    }
}

impl Now {
    fn add(&self, labels: Labels, value: f64) {
        self.0.get_or_create(&labels).inc_by(value);
    }
}

/// The names that JSON has for them, and so many each.
fn by_name(counts: &impl Serialize) -> Vec<(String, u64)> {
    let serde_json::Value::Object(fields) = serde_json::to_value(counts).expect("plain data")
    else {
        return Vec::new();
    };
    fields.into_iter().filter_map(|(name, count)| Some((name, count.as_u64()?))).collect()
}

/// One metric each.
macro_rules! metrics {
    ($name:ident { $($field:ident: $kind:ident, $help:literal;)* }) => {
        #[derive(Default)]
        struct $name { $($field: $kind,)* }

        impl $name {
            fn register(&self, registry: &mut Registry) {
                $(registry.register(stringify!($field), $help, self.$field.0.clone());)*
            }
        }
    };
}

metrics!(OfGuards {
    guard: Now, "Guarded listeners, 1 for each, with what is done for it";
    packets: Counted, "Packets that a verdict was found for, by verdict and reason";
    queue_drops: Counted, "Queue drops, refused or silent, by the rule that made them";
    fins_ended: Counted, "Connections that a client's FIN ended at once (rst-fin)";
    reservations_cleaned: Counted, "Reservations that grew old, and were given back";
    shed_probability: Now, "Share of clients or connections that is shed";
    shed_cells: Now, "Entries of the table of those that were shed";
    shed_cells_in_use: Now, "Those that stand";
    shed_spared: Counted, "SYNs of preferred proxies that would have been shed";
});

impl OfGuards {
    fn add_verdicts(&self, of: &Labels, verdicts: &Verdicts) {
        for (reason, counts) in verdicts {
            for (verdict, count) in counts {
                let more = [("verdict", (*verdict).to_owned()), ("reason", (*reason).to_owned())];
                self.packets.add([of.as_slice(), &more].concat(), *count);
            }
        }
    }

    fn add_shed(&self, of: &Labels, shed: &ShedStatus) {
        self.shed_probability.add(of.clone(), shed.p);
        self.shed_cells.add(of.clone(), shed.cells as f64);
        self.shed_cells_in_use.add(of.clone(), shed.cells_in_use as f64);
        self.shed_spared.add(of.clone(), shed.spared);
    }

    fn add(&self, guard: &GuardStatus) {
        let mut of: Labels = vec![("port", guard.port.to_string())];
        of.extend(guard.address.clone().map(|address| ("address", address)));
        let ways = [("mechanism", guard.mechanism.clone()), ("hook", guard.hook.to_owned())];
        self.guard.add([of.as_slice(), &ways].concat(), 1.0);
        self.add_verdicts(&of, &guard.verdicts);
        for (rule, count) in by_name(&guard.queue_drops) {
            self.queue_drops.add([of.as_slice(), &[("rule", rule)]].concat(), count);
        }
        self.fins_ended.add(of.clone(), guard.fin.ended);
        self.reservations_cleaned.add(of.clone(), guard.reservations_cleaned);
        if let Some(shed) = &guard.shed {
            self.add_shed(&of, shed);
        }
    }
}

metrics!(OfListeners {
    listening_sockets: Now, "Sockets that listen at this address";
    listen_queue_length: Now, "Connections that wait for accept()";
    listen_queue_limit: Now, "How many may";
    syn_queue_length: Now, "Half-open connections";
    syn_queue_limit: Now, "How many there may be";
    overload_phase: Now, "Sockets in this phase of auto's";
    new_clients_per_second: Now, "Clients that had not come before, as auto sees them";
    drained_clients_per_second: Now, "Connections that the server takes, as auto sees it";
    waiting_clients: Now, "Clients left in silence that may come again";
    fair_share_syns_per_second: Now, "SYNs that each network of clients may send, while shares are kept";
});

impl OfListeners {
    fn add_overload(&self, of: &Labels, overload: &OverloadStatus) {
        for phase in PHASES {
            let is_in = f64::from(u8::from(phase == overload.phase));
            self.overload_phase
                .add([of.as_slice(), &[("phase", phase.to_owned())]].concat(), is_in);
        }
        self.new_clients_per_second.add(of.clone(), overload.new_per_s);
        self.drained_clients_per_second.add(of.clone(), overload.drain_per_s);
        self.waiting_clients.add(of.clone(), overload.waiting as f64);
    }

    fn add(&self, listener: &ListenerStatus) {
        let of: Labels = vec![("listener", listener.address.clone())];
        self.listening_sockets.add(of.clone(), 1.0);
        self.listen_queue_length.add(of.clone(), listener.listen_queue.length.into());
        self.listen_queue_limit.add(of.clone(), listener.listen_queue.limit.into());
        self.syn_queue_length.add(of.clone(), listener.syn_queue.length.into());
        self.syn_queue_limit.add(of.clone(), listener.syn_queue.limit.into());
        if let Some(overload) = &listener.overload {
            self.add_overload(&of, overload);
        }
        if let Some(share) = &listener.fair_share {
            self.fair_share_syns_per_second.add(of, share.limit_per_s);
        }
    }
}

metrics!(OfTimeWait {
    time_wait_pairs: Now, "Pairs of ends in TIME-WAIT on this host, by who holds them";
    time_wait_entries: Now, "Pairs that our table has room for";
    time_wait_bytes: Now, "Memory of the pairs, by who holds them";
    time_wait_events: Counted, "What was done about TIME-WAIT, by name";
});

impl OfTimeWait {
    fn add(&self, time_wait: &TimeWaitStatus) {
        let by = |holder: &str| vec![("holder", holder.to_owned())];
        self.time_wait_pairs.add(by("kernel"), time_wait.held_by_kernel as f64);
        self.time_wait_pairs.add(by("tidegate"), time_wait.held_by_us as f64);
        self.time_wait_bytes.add(by("kernel"), time_wait.kernel_bytes as f64);
        self.time_wait_bytes.add(by("tidegate"), time_wait.table_bytes as f64);
        self.time_wait_entries.add(Labels::new(), time_wait.table_entries as f64);
        for (event, count) in &time_wait.counts {
            self.time_wait_events.add(vec![("event", (*event).to_owned())], *count);
        }
    }
}

metrics!(OfAgent {
    agent_notices: Counted, "Notices of overloaded servers that came, by what became of them";
    agent_connects_failed: Counted, "connect()s that failed because the server had said when to come back";
    agent_avoided_servers: Now, "Servers to which connect() fails now";
});

impl OfAgent {
    fn add(&self, agent: &AgentStatus) {
        for (outcome, count) in [
            ("obeyed", agent.notices_obeyed),
            ("untimed", agent.notices_untimed),
            ("unbelieved", agent.notices_unbelieved),
        ] {
            self.agent_notices.add(vec![("outcome", outcome.to_owned())], count);
        }
        self.agent_connects_failed.add(Labels::new(), agent.connects_failed);
        self.agent_avoided_servers.add(Labels::new(), agent.avoided.len() as f64);
    }
}

metrics!(OfHost {
    build: Now, "1, with this program's version";
    guard_attached: Now, "1 where a guard stands on this host, with a daemon or without";
    daemon_running: Now, "1 where a daemon looks after it";
});

impl OfHost {
    fn add(&self, status: &Status) {
        let is = |so: bool| f64::from(u8::from(so));
        self.build.add(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0);
        self.guard_attached.add(Labels::new(), is(!status.attached.is_empty()));
        self.daemon_running.add(Labels::new(), is(status.daemon_pid.is_some()));
    }
}

/// All of it, as OpenMetrics 1.0 has it written.
pub fn text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("tidegate");
    let (host, guards, listeners) =
        (OfHost::default(), OfGuards::default(), OfListeners::default());
    let (time_wait, agent) = (OfTimeWait::default(), OfAgent::default());
    host.add(status);
    for guard in &status.guards {
        guards.add(guard);
    }
    // Of two guards one may be of an address, and the other of all.
    let sockets = status.guards.iter().flat_map(|guard| &guard.listeners);
    let sockets: BTreeMap<_, _> = sockets.map(|socket| (socket.socket_cookie, socket)).collect();
    sockets.into_values().for_each(|socket| listeners.add(socket));
    status.time_wait.iter().for_each(|seen| time_wait.add(seen));
    status.agent.iter().for_each(|seen| agent.add(seen));
    host.register(&mut registry);
    guards.register(&mut registry);
    listeners.register(&mut registry);
    time_wait.register(&mut registry);
    agent.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a String takes all that is written");
    text
}
