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
use tidegate_policy::names::{PHASES, REASONS, VERDICTS, verdicts_beside};
use tidegate_policy::raw::*;

use crate::agent::AgentStatus;
use crate::status::{
    COUNTS, GuardStatus, ListenerStatus, OverloadStatus, ShedStatus, Status, TimeWaitStatus,
    Verdicts, each,
};

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
    shed_probability: Now, "Share of clients or connections that is shed; with rbd, of SYNs";
    shed_cells: Now, "Entries of the table of those that were shed";
    shed_cells_in_use: Now, "Those that stand";
    shed_spared: Counted, "SYNs of preferred proxies that would have been shed";
});

/// Whether a guard can have packets of this reason.
fn can_count(guard: &GuardStatus, reason: u32) -> bool {
    match reason {
        TG_REFUSAL_LIMIT => true,
        TG_SHED_STATELESS..=TG_SHED_UNIFORM => guard.shed.is_some(),
        TG_SPARED | TG_FORWARDED => guard.is_path,
        _ => !guard.is_path,
    }
}

impl OfGuards {
    fn add_packets(&self, of: &Labels, reason: &str, verdict: &str, count: u64) {
        let more = [("verdict", verdict.to_owned()), ("reason", reason.to_owned())];
        self.packets.add([of.as_slice(), &more].concat(), count);
    }

    /// A rate needs a sample from before the first packet: what can be counted is there from the start, with 0.
    fn begin_verdicts(&self, of: &Labels, guard: &GuardStatus) {
        for (reason, name) in (0..).zip(REASONS).filter(|(reason, _)| can_count(guard, *reason)) {
            for verdict in verdicts_beside(reason) {
                self.add_packets(of, name, VERDICTS[*verdict as usize], 0);
            }
        }
    }

    fn add_verdicts(&self, of: &Labels, verdicts: &Verdicts) {
        for (reason, verdict, count) in each(verdicts) {
            self.add_packets(of, reason, verdict, count);
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
        self.begin_verdicts(&of, guard);
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
    new_clients_per_second: Now, "Clients that had not come before, as auto sees them while there is trouble";
    drained_clients_per_second: Now, "Connections that the server takes, as auto sees it while there is trouble";
    waiting_clients: Now, "Clients left in silence that may come again";
    fair_share_syns_per_second: Now, "SYNs that each network of clients may send, while shares are kept";
});

impl OfListeners {
    fn add_overload(&self, of: &Labels, overload: &OverloadStatus) {
        for phase in PHASES {
            let is_in = f64::from(phase == overload.phase);
            self.overload_phase
                .add([of.as_slice(), &[("phase", phase.to_owned())]].concat(), is_in);
        }
        if let Some(per_s) = overload.new_per_s {
            self.new_clients_per_second.add(of.clone(), per_s);
        }
        if let Some(per_s) = overload.drain_per_s {
            self.drained_clients_per_second.add(of.clone(), per_s);
        }
        self.waiting_clients.add(of.clone(), overload.waiting as f64);
    }

    /// What the socket itself has, whoever guards it.
    fn add_queues(&self, listener: &ListenerStatus) {
        let of: Labels = vec![("listener", listener.address.clone())];
        self.listening_sockets.add(of.clone(), 1.0);
        self.listen_queue_length.add(of.clone(), listener.listen_queue.length.into());
        self.listen_queue_limit.add(of.clone(), listener.listen_queue.limit.into());
        self.syn_queue_length.add(of.clone(), listener.syn_queue.length.into());
        self.syn_queue_limit.add(of, listener.syn_queue.limit.into());
    }

    /// What one guard has seen of its clients there.
    fn add_seen(&self, listener: &ListenerStatus) {
        let of: Labels = vec![("listener", listener.address.clone())];
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
        for event in COUNTS {
            let count = time_wait.counts.get(event).copied().unwrap_or(0);
            self.time_wait_events.add(vec![("event", event.to_owned())], count);
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
        self.build.add(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0);
        self.guard_attached.add(Labels::new(), f64::from(!status.attached.is_empty()));
        self.daemon_running.add(Labels::new(), f64::from(status.daemon_running));
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
    // Of two guards one may be of an address, and the other of all: a socket that both have has two
    // kinds of clients, and each of its queues once.
    let mut queues = BTreeMap::new();
    for guard in &status.guards {
        let sockets = guard.listeners.iter();
        let (common, own): (Vec<_>, Vec<_>) = sockets.partition(|socket| socket.shares_memory);
        // What sockets have in common is added up once.
        own.iter().chain(common.first()).for_each(|socket| listeners.add_seen(socket));
        queues.extend(guard.listeners.iter().map(|socket| (socket.socket_cookie, socket)));
    }
    queues.into_values().for_each(|socket| listeners.add_queues(socket));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::ShareStatus;
    use crate::status::example::{guard, listener, persistent};

    fn has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|told| told == *line), "{line} is in\n{text}");
        }
    }

    /// Two sockets of one application's; the second is of another guard, too, whose clients are calm.
    #[test]
    fn queues_are_added_up_by_socket_and_what_was_seen_by_guard() {
        let share = ShareStatus { limit_per_s: 2.5, ipv4_bits: 24, ipv6_bits: 56 };
        let another = || ListenerStatus { socket_cookie: 8, ..listener(&[]) };
        let first = ListenerStatus { fair_share: Some(share), ..listener(&[]) };
        let all = guard(vec![first, another()], &[("NewFirst", "reset", 5)]);
        let address = Some("192.0.2.1".to_owned());
        let calm = OverloadStatus { phase: "calm", new_per_s: None, ..persistent() };
        let calm = ListenerStatus { overload: Some(calm), ..another() };
        let one = GuardStatus { address, ..guard(vec![calm], &[("NewFirst", "reset", 3)]) };
        let text = text(&Status { guards: vec![all, one], ..Status::default() });
        has(
            &text,
            &[
                r#"tidegate_packets_total{port="443",verdict="reset",reason="NewFirst"} 5"#,
                r#"tidegate_packets_total{port="443",address="192.0.2.1",verdict="reset",reason="NewFirst"} 3"#,
                r#"tidegate_listening_sockets{listener="192.0.2.1:443"} 2.0"#,
                r#"tidegate_listen_queue_length{listener="192.0.2.1:443"} 24.0"#,
                r#"tidegate_overload_phase{listener="192.0.2.1:443",phase="persistent"} 2.0"#,
                r#"tidegate_overload_phase{listener="192.0.2.1:443",phase="calm"} 1.0"#,
                r#"tidegate_new_clients_per_second{listener="192.0.2.1:443"} 18000.0"#,
                r#"tidegate_fair_share_syns_per_second{listener="192.0.2.1:443"} 2.5"#,
            ],
        );
    }

    /// rate() and increase() see the first crowd by the sample before it.
    #[test]
    fn what_can_be_counted_is_there_before_it_was() {
        let path = GuardStatus { is_path: true, port: 80, ..guard(Vec::new(), &[]) };
        let listens = guard(Vec::new(), &[("Room", "pass", 7)]);
        let text = text(&Status { guards: vec![listens, path], ..Status::default() });
        has(
            &text,
            &[
                r#"tidegate_packets_total{port="443",verdict="reset",reason="NewFirst"} 0"#,
                r#"tidegate_packets_total{port="443",verdict="pass",reason="Room"} 7"#,
                r#"tidegate_packets_total{port="443",verdict="reset",reason="ListenQOverflow SYN/ACK ACK"} 0"#,
                r#"tidegate_packets_total{port="80",verdict="pass",reason="Forwarded"} 0"#,
                r#"tidegate_packets_total{port="80",verdict="drop",reason="RefusalLimit"} 0"#,
            ],
        );
        for never in [r#"verdict="admit",reason="Room""#, r#"reason="ShedNew""#] {
            assert!(!text.contains(never), "{never} is in\n{text}");
        }
        let of_paths = text.lines().filter(|line| line.contains(r#"total{port="80",verdict="#));
        assert_eq!(of_paths.count(), 3, "no more is decided on a path that sheds nobody:\n{text}");
    }

    /// A killed daemon gives no counter slots.
    #[test]
    fn what_sockets_without_a_slot_have_in_common_is_told_once() {
        let worker = |socket_cookie| ListenerStatus {
            socket_cookie,
            shares_memory: socket_cookie > 8,
            ..listener(&[])
        };
        let workers = [9, 8, 10].map(worker).into();
        let text = text(&Status { guards: vec![guard(workers, &[])], ..Status::default() });
        has(
            &text,
            &[
                r#"tidegate_listening_sockets{listener="192.0.2.1:443"} 3.0"#,
                r#"tidegate_new_clients_per_second{listener="192.0.2.1:443"} 18000.0"#,
            ],
        );
    }

    #[test]
    fn what_nobody_asked_for_is_not_told_and_what_runs_is() {
        let shed = ShedStatus {
            policy: "slpd",
            key: "client",
            p: 0.25,
            auto: None,
            refuse: "rst",
            fallback: "none",
            fallback_changes: 0,
            preferred_judged: false,
            spared: 9,
            cells: 4096,
            cells_in_use: 17,
        };
        let agent = AgentStatus {
            pid: 5,
            destinations: Vec::new(),
            avoided: Vec::new(),
            notices_obeyed: 4,
            notices_untimed: 1,
            notices_unbelieved: 2,
            connects_failed: 30,
        };
        let bare = text(&Status { guards: vec![guard(Vec::new(), &[])], ..Status::default() });
        for absent in ["shed", "agent", "time_wait"] {
            assert!(!bare.contains(&format!("tidegate_{absent}")), "{bare}");
        }
        let time_wait = TimeWaitStatus {
            held_by_kernel: 11,
            kernel_bytes: 12,
            held_by_us: 13,
            swapped_now: 0,
            table_bytes: 14,
            maps_bytes: 15,
            table_entries: 16,
            held_elsewhere: 0,
            counts: [("agreed_here", 17)].into(),
        };
        let mut ours = guard(vec![listener(&[])], &[]);
        (ours.shed, ours.fin.ended, ours.reservations_cleaned) = (Some(shed), 18, 19);
        let (time_wait, agent) = (Some(time_wait), Some(agent));
        let told = text(&Status { guards: vec![ours], time_wait, agent, ..Status::default() });
        has(
            &told,
            &[
                r#"tidegate_shed_probability{port="443"} 0.25"#,
                r#"tidegate_shed_spared_total{port="443"} 9"#,
                r#"tidegate_shed_cells{port="443"} 4096.0"#,
                r#"tidegate_shed_cells_in_use{port="443"} 17.0"#,
                r#"tidegate_time_wait_pairs{holder="kernel"} 11.0"#,
                r#"tidegate_time_wait_bytes{holder="kernel"} 12.0"#,
                r#"tidegate_time_wait_pairs{holder="tidegate"} 13.0"#,
                r#"tidegate_time_wait_bytes{holder="tidegate"} 14.0"#,
                "tidegate_time_wait_entries 16.0",
                r#"tidegate_time_wait_events_total{event="agreed_here"} 17"#,
                r#"tidegate_time_wait_events_total{event="blocked"} 0"#,
                r#"tidegate_packets_total{port="443",verdict="reset",reason="ShedNew"} 0"#,
                r#"tidegate_fins_ended_total{port="443"} 18"#,
                r#"tidegate_reservations_cleaned_total{port="443"} 19"#,
                r#"tidegate_drained_clients_per_second{listener="192.0.2.1:443"} 6500.0"#,
                r#"tidegate_waiting_clients{listener="192.0.2.1:443"} 700.0"#,
                r#"tidegate_agent_notices_total{outcome="obeyed"} 4"#,
                r#"tidegate_agent_notices_total{outcome="untimed"} 1"#,
                r#"tidegate_agent_notices_total{outcome="unbelieved"} 2"#,
                "tidegate_agent_connects_failed_total 30",
                "tidegate_agent_avoided_servers 0.0",
            ],
        );
    }
}
