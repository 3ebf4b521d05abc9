// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what clients saw to a line of a result, in either world.

use std::collections::BTreeMap;

use tidegate_client::{Outcome, Second};
use tidegate_scenarios::{
    Arrivals, Clients, Driver, Load, NO_PORT_ERRNO, NO_PORT_FREE, OTHER_ERRORS, PLOTTED_ERRORS,
    Scenario, Setting,
};

use crate::point::{Point, World};

/// An operating point: one curve at one offered load.
#[derive(Clone, Copy, Debug)]
pub struct OperatingPoint<'a> {
    /// Its scenario.
    pub scenario: &'a Scenario,
    /// Its curve.
    pub setting: &'a Setting,
    /// The scenario's load.
    pub load: &'a Load,
    /// Requests per second that the server can do.
    pub capacity_per_s: f64,
    /// Requests offered, in multiples of the capacity.
    pub offered_over_capacity: f64,
}

/// What a server holds when the counted time ends.
#[derive(Clone, Copy, Debug)]
pub struct HeldByServer {
    /// Blocks in TIME-WAIT.
    pub blocks: u64,
    /// Pairs that are held in a table beside its TCP.
    pub pairs: u64,
    /// Sockets with all their state.
    pub sockets: u64,
    /// The most blocks and pairs together that there were at one time until then.
    pub most: u64,
    /// Bytes of a block, where that is known.
    pub block_bytes: Option<u64>,
    /// Bytes of a pair.
    pub pair_bytes: u64,
    /// Bytes of a socket, where that is known.
    pub socket_bytes: Option<u64>,
}

impl HeldByServer {
    /// The server's numbers of a point's `time_wait`.
    #[must_use]
    pub fn measures(&self) -> BTreeMap<String, f64> {
        let waiting = self.blocks + self.pairs;
        let waiting_bytes =
            self.block_bytes.map(|bytes| self.blocks * bytes + self.pairs * self.pair_bytes);
        let sockets_bytes = self.socket_bytes.map(|bytes| self.sockets * bytes);
        let numbers = [
            ("server", Some(waiting)),
            ("server_max", Some(self.most)),
            ("server_bytes", waiting_bytes),
            ("server_tcbs", Some(waiting + self.sockets)),
            ("server_tcb_bytes", waiting_bytes.zip(sockets_bytes).map(|(one, other)| one + other)),
        ];
        let known = numbers.into_iter().filter_map(|(name, number)| Some((name, number?)));
        known.map(|(name, number)| (name.to_owned(), number as f64)).collect()
    }
}

impl OperatingPoint<'_> {
    /// What clients saw there. What was counted at the server is left empty: only the world behind
    /// it knows, and whether it counted over another time than theirs.
    #[must_use]
    pub fn seen_by_clients(&self, world: World, outcome: &Outcome) -> Point {
        let uneven;
        let outcome = if self.is_even() {
            outcome
        } else {
            uneven = outcome.clone().of_uneven_time();
            &uneven
        };
        Point {
            scenario: self.scenario.name.clone(),
            world,
            curve: self.setting.curve.clone(),
            mechanism: self.setting.done(),
            server: self.setting.server.under(&self.setting.treatment).summary(),
            clients: self.clients(world),
            tcp: None,
            capacity_per_s: self.capacity_per_s,
            offered_per_s: self.offered_per_s(outcome),
            offered_over_capacity: self.offered_over_capacity,
            attempts: outcome.attempts,
            replies_per_s: outcome.replies_per_s,
            replies_per_s_ci95: outcome.replies_per_s_ci95,
            response_ms: outcome.response_ms,
            refusal_ms: outcome.refusal_ms,
            delay_ms: outcome.delay_ms,
            errors_per_s: errors_per_s(outcome),
            answered_within_per_s: answered_within_per_s(outcome),
            queue_drops_per_s: BTreeMap::new(),
            verdicts_per_s: BTreeMap::new(),
            syns_per_attempt: outcome.syns_per_attempt.clone(),
            segments: segments(outcome),
            cpu: BTreeMap::new(),
            cpu_components: BTreeMap::new(),
            cpu_calls: BTreeMap::new(),
            visits: visits(outcome),
            networks: self.setting.clients.networks.seen(&outcome.parts, outcome.duration_s),
            serving: BTreeMap::new(),
            time_wait: time_wait(outcome),
            seconds: self.seconds(outcome),
            kernel: BTreeMap::new(),
            kernel_s: Some(outcome.duration_s),
            late_p99_ms: outcome.late_starts.p99_ms,
            warnings: Vec::new(),
            duration_s: outcome.duration_s,
            seed: self.load.seed,
        }
    }

    /// The clients in a few words. Simulated ones have no kernel's sockets, whatever a scenario asks for.
    fn clients(&self, world: World) -> String {
        let clients = &self.setting.clients;
        match world {
            World::Live => clients.summary(),
            World::Sim => Clients { driver: Driver::Raw, ..clients.clone() }.summary(),
        }
    }

    /// Requests. Of visits these are what a page and its objects take: how many connections a browser
    /// opens for them hangs on what becomes of the first ones.
    fn offered_per_s(&self, outcome: &Outcome) -> f64 {
        let clients = &self.setting.clients;
        match (&clients.browsing, &outcome.visits) {
            (Some(browsing), Some(visits)) => {
                visits.started as f64 * browsing.requests_a_visit() / outcome.duration_s
            }
            _ => outcome.offered_per_s * clients.requests,
        }
    }

    /// Whether one part of the time that counts is like another, so that their spread says how sure a
    /// mean is. That of bursts, steps and what was recorded says how these fall into the parts.
    fn is_even(&self) -> bool {
        matches!(self.setting.clients.arrivals, Arrivals::Poisson | Arrivals::Constant)
    }

    /// Elsewhere each second is like the other, and a result would be long.
    fn seconds(&self, outcome: &Outcome) -> BTreeMap<String, Vec<f64>> {
        if !matches!(self.setting.clients.arrivals, Arrivals::Steps(_)) {
            return BTreeMap::new();
        }
        let whole = outcome.duration_s as usize;
        let counts = |count: fn(&Second) -> u64| {
            outcome.seconds.iter().take(whole).map(|second| count(second) as f64).collect()
        };
        let mut seconds: BTreeMap<String, Vec<f64>> = BTreeMap::from([
            ("started".to_owned(), counts(|second| second.started)),
            ("failed".to_owned(), counts(|second| second.failed)),
            ("replies".to_owned(), counts(|second| second.replies)),
        ]);
        if !outcome.syns_per_attempt.is_empty() {
            seconds.insert("repeated".to_owned(), counts(|second| second.repeated));
        }
        seconds
    }
}

fn answered_within_per_s(outcome: &Outcome) -> BTreeMap<u32, f64> {
    let counted = outcome.replies_within_ms.iter();
    counted.map(|(ms, count)| (*ms, *count as f64 / outcome.duration_s)).collect()
}

/// By kind, or by errno.
fn errors_per_s(outcome: &Outcome) -> BTreeMap<String, f64> {
    let errors = &outcome.errors;
    let plotted = PLOTTED_ERRORS.into_iter().map(|(name, count)| (name, count(errors)));
    let mut counts: BTreeMap<&str, u64> = plotted.collect();
    for (name, count) in OTHER_ERRORS {
        if count(errors) > 0 {
            counts.insert(name, count(errors));
        }
    }
    for (name, count) in &errors.other {
        let name = if name == NO_PORT_ERRNO { NO_PORT_FREE } else { name };
        counts.insert(name, *count);
    }
    let per_s = |count: u64| count as f64 / outcome.duration_s;
    counts.into_iter().map(|(name, count)| (name.to_owned(), per_s(count))).collect()
}

fn visits(outcome: &Outcome) -> BTreeMap<String, f64> {
    let Some(visits) = &outcome.visits else { return BTreeMap::new() };
    let per_s = |count: u64| count as f64 / outcome.duration_s;
    let mut numbers = vec![
        ("started_per_s", per_s(visits.started)),
        ("completed_per_s", per_s(visits.completed)),
        ("abandoned_per_s", per_s(visits.abandoned)),
    ];
    // How long none took is unknown, and not 0.
    if visits.completed > 0 {
        let page = visits.page_ms;
        numbers.extend([("page_mean_ms", page.mean), ("page_p99_ms", page.p99)]);
    }
    numbers.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
}

fn time_wait(outcome: &Outcome) -> BTreeMap<String, f64> {
    let Some(held) = outcome.time_waits else { return BTreeMap::new() };
    [("clients", held.at_end), ("clients_max", held.most)]
        .map(|(name, count)| (name.to_owned(), count as f64))
        .into()
}

fn segments(outcome: &Outcome) -> BTreeMap<String, u64> {
    let value = serde_json::to_value(outcome.segments).unwrap_or_default();
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
}

#[cfg(test)]
mod tests {
    use tidegate_client::{Tally, VisitEnd};
    use tidegate_scenarios::Form;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Of ten seconds in which one visit began, and was given up.
    fn point(clients: &str) -> Point {
        seen(World::Sim, clients, "mechanism = \"default\"")
    }

    fn seen(world: World, clients: &str, curve: &str) -> Point {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\n[clients]\n{clients}\n[load]\noffered = [1]\n\
             [[curve]]\n{curve}"
        );
        let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
        let load = scenario.load(Form::Full);
        let (setting, capacity_per_s, offered_over_capacity) = (&scenario.settings[0], 1.0, 1.0);
        let mut tally = Tally::new(0..10 * S);
        tally.visit_started(S);
        tally.visit_ended(VisitEnd::Abandoned, S, 2 * S);
        let at = OperatingPoint {
            scenario: &scenario,
            setting,
            load: &load,
            capacity_per_s,
            offered_over_capacity,
        };
        at.seen_by_clients(world, &tally.outcome(1))
    }

    /// Under one peer it has another listen queue than the scenario says.
    #[test]
    fn a_point_names_the_server_as_it_was_started() {
        for (peer, begins) in
            [("kernel", "userver, backlog 128, "), ("large-backlog", "userver, backlog 65535, ")]
        {
            let point = seen(World::Live, "", &format!("peer = \"{peer}\""));
            assert!(point.server.starts_with(begins), "{}", point.server);
        }
    }

    #[test]
    fn a_kernels_sockets_are_live_clients() {
        let clients = |world| seen(world, "driver = \"sockets\"", "peer = \"kernel\"").clients;
        assert!(clients(World::Live).ends_with(", kernel sockets"));
        assert_eq!(clients(World::Sim), point("").clients);
    }

    #[test]
    fn what_a_server_holds_is_told_in_numbers_and_where_they_are_known_in_bytes() {
        let held = HeldByServer {
            blocks: 3,
            pairs: 2,
            sockets: 4,
            most: 7,
            block_bytes: Some(256),
            pair_bytes: 64,
            socket_bytes: Some(2000),
        };
        let told =
            |held: HeldByServer| -> Vec<(String, f64)> { held.measures().into_iter().collect() };
        let named = |numbers: &[(&str, f64)]| -> Vec<(String, f64)> {
            numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
        };
        let all = [
            ("server", 5.0),
            ("server_bytes", 896.0),
            ("server_max", 7.0),
            ("server_tcb_bytes", 8896.0),
            ("server_tcbs", 9.0),
        ];
        assert_eq!(told(held), named(&all));
        let unknown = HeldByServer { block_bytes: None, socket_bytes: None, ..held };
        assert_eq!(told(unknown), named(&[all[0], all[2], all[4]]));
    }

    #[test]
    fn what_failed_is_told_by_kind_and_what_theses_plot_even_where_nothing_did() {
        let mut outcome = Outcome { duration_s: 2.0, ..Outcome::default() };
        let told = |outcome: &Outcome| -> Vec<(String, f64)> {
            errors_per_s(outcome).into_iter().filter(|(_, per_s)| *per_s > 0.0).collect()
        };
        assert_eq!((errors_per_s(&outcome).len(), told(&outcome)), (4, vec![]));
        outcome.errors.timed_out_waiting = 6;
        outcome.errors.not_started = 4;
        outcome.errors.other = [("EADDRNOTAVAIL".to_owned(), 2), ("EMFILE".to_owned(), 8)].into();
        let right = [
            ("EMFILE", 4.0),
            ("no port free", 1.0),
            ("not started", 2.0),
            ("timeout, connected", 3.0),
        ];
        assert_eq!(told(&outcome), right.map(|(name, per_s)| (name.to_owned(), per_s)));
    }

    /// Who fails at the page opens no connection for its objects; who is answered late opens spare ones.
    #[test]
    fn visits_offer_a_page_and_its_objects_whatever_becomes_of_them() {
        let browsing = point("browser = \"chrome\"\nobjects = 5");
        assert_eq!(browsing.offered_per_s, 0.6);
        assert_eq!(point("").offered_per_s, 0.0);
    }

    /// Ten parts of bursts with silences between differ by how many of each they have.
    #[test]
    fn an_interval_is_told_where_one_part_of_the_time_is_like_another() {
        for (arrivals, is_told) in [
            ("", true),
            ("arrivals = \"constant\"", true),
            ("arrivals = { bursts = { burst_s = 1, silence_s = 5 } }", false),
        ] {
            assert_eq!(point(arrivals).replies_per_s_ci95.is_some(), is_told, "{arrivals}");
        }
    }

    #[test]
    fn how_long_a_page_takes_that_nobody_has_had_is_unknown() {
        let point = point("");
        assert_eq!(point.measure("visits.abandoned_per_s"), Some(0.1));
        assert_eq!(point.measure("visits.completed_per_s"), Some(0.0));
        assert_eq!(point.measure("visits.page_mean_ms"), None);
    }
}
