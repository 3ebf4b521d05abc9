// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jamjoom's equations 1, 2, 4 to 7 and his table 3, as `tidegate_client::model` has them, against simulation (H. Jamjoom and K. Shin,
//! *Persistent Dropping*, 2003, sections 2.1.1, 3.1 and 3.3), within sampling error, for any system,
//! drop probabilities and round trip.
//!
//! SYNs are dropped by the network on their way in; the server costs nothing. Then a reply is there
//! one round trip after the SYN/ACK, and the latency of establishing the connection is that much
//! less than the response time.

use proptest::prelude::*;
use tidegate_client::model::{
    Comparison, Schedule, arrivals_by_class_per_s, arrivals_per_s,
    establishment_latency_by_class_s, establishment_latency_s, latency_distribution, persistent,
    rate_based, successful_latency_s, table_3_persistent, table_3_rate_based,
};
use tidegate_client::{Arrivals, Os, Outcome};
use tidegate_sim::{Attention, Costs, Load, Machine, Napi, Pace, Setup, World};

const MS_NS: u64 = 1_000_000;
const ATTEMPTS_PER_S: u32 = 4000;
const DURATION_S: u32 = 2;
/// A right simulation may be found wrong at one look in so many.
const LOOKS: f64 = 1e7;
/// The histogram of times keeps three digits.
const COARSE: f64 = 0.001;

/// What one client does and what may happen to it.
#[derive(Clone, Debug)]
struct Case {
    os: &'static Os,
    /// SYNs that it sends again at most.
    again: usize,
    rtt_ms: u32,
    seed: u64,
}

impl Case {
    /// When its SYN is sent for that time, in ms after the first: Jamjoom's T.
    fn sent_ms(&self, time: usize) -> f64 {
        time.checked_sub(1).map_or(0.0, |place| f64::from(self.os.syn_again_ms[place]))
    }

    /// It gives up when the reply to its last SYN would have been there, and before the next.
    fn abort_ms(&self) -> f64 {
        self.sent_ms(self.again) + 2.0 * f64::from(self.rtt_ms) + 1.0
    }

    fn run(&self, drops: &[f64]) -> Outcome {
        let machine = Machine {
            costs: Costs::default(),
            napi: Napi::NONE,
            wire_ns: u64::from(self.rtt_ms) * MS_NS / 2,
            clients: Attention::default(),
            pace: Pace::EVEN,
            ..Machine::today()
        };
        let mut setup = Setup::one_packet(machine, None, self.os);
        setup.backlog = 65_535;
        setup.way.loss_of_syns = drops.to_vec();
        setup.crowd.person.timeout_ns = (self.abort_ms() * 1e6) as u64;
        setup.crowd.load = Load::Open(Arrivals::constant(f64::from(ATTEMPTS_PER_S)));
        setup.crowd.duration_ns = u64::from(DURATION_S) * 1000 * MS_NS;
        setup.seed = self.seed;
        World::new(setup).run(&mut |_| {}).outcome
    }

    /// The same as the model has it.
    fn schedule(&self) -> Schedule {
        let again_s: Vec<f64> = (1..=self.again).map(|time| self.sent_ms(time) / 1e3).collect();
        Schedule::new(&again_s, self.abort_ms() / 1e3)
    }

    fn rtt_s(&self) -> f64 {
        f64::from(self.rtt_ms) / 1e3
    }

    /// Each way that an attempt can go: its probability, its latency in ms (Eq. 5) and its SYNs.
    fn ways(&self, drops: &[f64]) -> Vec<Way5> {
        let outcomes = latency_distribution(drops, &self.schedule(), self.rtt_s());
        let with_syns = outcomes.into_iter().zip((1..=drops.len()).chain([drops.len()]));
        let way = |((latency_s, probability), syns)| Way5 {
            probability,
            latency_ms: latency_s * 1e3,
            syns: syns as f64,
        };
        with_syns.map(way).collect()
    }
}

/// A line of Equation 5.
#[derive(Clone, Copy, Debug)]
struct Way5 {
    probability: f64,
    latency_ms: f64,
    syns: f64,
}

/// What the mean of so many independent values should be near: the mean of one, its variance, and
/// how far one can be from the mean.
#[derive(Clone, Copy, Debug)]
struct Expected {
    mean: f64,
    variance: f64,
    range: f64,
    count: u64,
}

impl Expected {
    /// The mean is what an equation says; the rest tells how far off chance may be.
    fn by(mean: f64, ways: &[Way5], value: impl Fn(&Way5) -> f64, count: u64) -> Expected {
        Expected { mean, ..Expected::of(ways, value, count) }
    }

    fn of(ways: &[Way5], value: impl Fn(&Way5) -> f64, count: u64) -> Expected {
        let whole: f64 = ways.iter().map(|way| way.probability).sum();
        let mean = ways.iter().map(|way| way.probability * value(way)).sum::<f64>() / whole;
        let square = |way: &Way5| way.probability * (value(way) - mean).powi(2);
        let variance = ways.iter().map(square).sum::<f64>() / whole;
        let range = ways.iter().map(|way| (value(way) - mean).abs()).fold(0.0, f64::max);
        Expected { mean, variance, range, count }
    }

    /// The share of attempts that go a way of this probability.
    fn share(p: f64, count: u64) -> Expected {
        Expected { mean: p, variance: p * (1.0 - p), range: p.max(1.0 - p), count }
    }

    fn times(self, factor: f64) -> Expected {
        Expected {
            mean: self.mean * factor,
            variance: self.variance * factor * factor,
            range: self.range * factor,
            ..self
        }
    }

    /// How far off a mean may be, by Bernstein's inequality (*Sur une modification de
    /// l'inégalité de Tchebichef*, 1924). Standard errors alone hold no rare way: one attempt in
    /// 200,000 is seen once among 8,000 far oftener than a normal distribution would have it.
    fn error(&self) -> f64 {
        let looks = (2.0 * LOOKS).ln() / self.count as f64;
        let rare = self.range * looks / 3.0;
        rare + (rare * rare + 2.0 * self.variance * looks).sqrt()
    }
}

fn near(what: &str, found: f64, expected: Expected, coarse: f64) -> Result<(), TestCaseError> {
    let off = (found - expected.mean).abs();
    let error = expected.error();
    prop_assert!(off <= error + coarse, "{what}: {found}, not within {error} of {expected:?}");
    Ok(())
}

fn syns(outcome: &Outcome) -> f64 {
    let classes = outcome.syns_per_attempt.iter();
    classes.map(|(syns, class)| f64::from(*syns) * class.attempts as f64).sum::<f64>()
}

/// Mean latency of all, and of those that were connected, in ms.
fn latencies_ms(outcome: &Outcome, case: &Case) -> (f64, f64) {
    let connected_ms = outcome.response_ms.mean - f64::from(case.rtt_ms);
    let given_up = outcome.errors.timed_out_connecting as f64 * case.abort_ms();
    let all_ms = (connected_ms * outcome.replies as f64 + given_up) / outcome.attempts as f64;
    (all_ms, connected_ms)
}

/// Equations 4 to 7, of which 1 and 2 are the case of equal probabilities.
fn check(case: &Case, drops: &[f64]) -> Result<Outcome, TestCaseError> {
    let outcome = case.run(drops);
    let attempts = outcome.attempts;
    prop_assert_eq!(attempts, u64::from(ATTEMPTS_PER_S * DURATION_S));
    prop_assert_eq!(attempts, outcome.replies + outcome.errors.timed_out_connecting);

    let ways = case.ways(drops);
    let (timeouts, successes) = ways.split_last().expect("there is one for giving up");
    for way in successes {
        let class = outcome.syns_per_attempt.get(&(way.syns as u32)).copied().unwrap_or_default();
        let share = (class.attempts - class.errors) as f64 / attempts as f64;
        near("Eq. 5", share, Expected::share(way.probability, attempts), 1e-9)?;
    }
    let timed_out = outcome.errors.timed_out_connecting as f64 / attempts as f64;
    near("p*", timed_out, Expected::share(timeouts.probability, attempts), 1e-9)?;

    let (schedule, rtt_s) = (case.schedule(), case.rtt_s());
    let (all_ms, connected_ms) = latencies_ms(&outcome, case);
    let mean_ms = 1e3 * establishment_latency_by_class_s(drops, &schedule, rtt_s);
    let expected = Expected::by(mean_ms, &ways, |way| way.latency_ms, attempts);
    near("Eq. 6", all_ms, expected, COARSE * expected.mean)?;
    if outcome.replies > 0 {
        let mean_s = successful_latency_s(drops, &schedule, rtt_s).expect("somebody succeeds");
        let expected = Expected::by(1e3 * mean_s, successes, |way| way.latency_ms, outcome.replies);
        near("Eq. 7", connected_ms, expected, COARSE * (expected.mean + f64::from(case.rtt_ms)))?;
    }
    let mean = arrivals_by_class_per_s(drops, 1.0);
    let expected = Expected::by(mean, &ways, |way| way.syns, attempts);
    near("Eq. 4", syns(&outcome) / attempts as f64, expected, 1e-9)?;
    Ok(outcome)
}

/// A column of table 3, where SYNs of each class are dropped so.
fn check_column(case: &Case, drops: &[f64], column: &Comparison) -> Result<Outcome, TestCaseError> {
    let outcome = check(case, drops)?;
    let (ways, attempts) = (case.ways(drops), outcome.attempts);
    let timed_out = outcome.errors.timed_out_connecting as f64 / attempts as f64;
    near(
        "effective timeout probability",
        timed_out,
        Expected::share(column.p_star, attempts),
        1e-9,
    )?;

    let mean_ms = 1e3 * column.latency_s;
    let latency = Expected::by(mean_ms, &ways, |way| way.latency_ms, attempts);
    near("latency", latencies_ms(&outcome, case).0, latency, COARSE * mean_ms)?;

    let sent = Expected::by(column.transmissions, &ways, |way| way.syns, attempts);
    near("transmissions", syns(&outcome) / attempts as f64, sent, 1e-9)?;
    let sent_per_s = outcome.segments.syn_sent as f64 / f64::from(DURATION_S);
    let all = Expected { mean: column.arrivals_per_s, ..sent.times(f64::from(ATTEMPTS_PER_S)) };
    near("effective arrival rate", sent_per_s, all, 1e-6)?;
    Ok(outcome)
}

fn case() -> impl Strategy<Value = Case> {
    let os = prop::sample::select(Os::all().to_vec());
    let cases = os
        .prop_flat_map(|os| (Just(os), 0..=os.syn_again_ms.len().min(5), 1..150_u32, any::<u64>()));
    let cases =
        cases.prop_map(|(os, again, half_ms, seed)| Case { os, again, rtt_ms: 2 * half_ms, seed });
    cases.prop_filter("it gives up before its system does and before the next SYN", |case| {
        let next_ms = case.os.syn_again_ms.get(case.again).map_or(f64::MAX, |ms| f64::from(*ms));
        case.abort_ms() < next_ms && case.abort_ms() < f64::from(case.os.connect_gives_up_ms)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn equations_1_and_2(case in case(), p in 0.02..0.95_f64) {
        let drops = rate_based(p, case.again);
        let outcome = check(&case, &drops)?;
        let (ways, attempts) = (case.ways(&drops), outcome.attempts);
        let mean_ms = 1e3 * establishment_latency_s(p, &case.schedule(), case.rtt_s());
        let expected = Expected::by(mean_ms, &ways, |way| way.latency_ms, attempts);
        near("Eq. 1", latencies_ms(&outcome, &case).0, expected, COARSE * mean_ms)?;
        let mean = arrivals_per_s(p, case.again, 1.0);
        let expected = Expected::by(mean, &ways, |way| way.syns, attempts);
        near("Eq. 2", syns(&outcome) / attempts as f64, expected, 1e-9)?;
    }

    #[test]
    fn equations_4_to_7(
        (case, drops) in case().prop_flat_map(|case| {
            let classes = case.again + 1;
            (Just(case), prop::collection::vec(0.0..1.0_f64, classes..=classes))
        })
    ) {
        check(&case, &drops)?;
    }

    /// Persistent dropping reaches the same timeout probability with less of everything.
    #[test]
    fn table_3(case in case(), p in 0.1..0.9_f64) {
        let (schedule, rtt_s) = (case.schedule(), case.rtt_s());
        let offered_per_s = f64::from(ATTEMPTS_PER_S);
        let column = table_3_persistent(p, &schedule, rtt_s, offered_per_s);
        let drops = persistent(column.drop_probability, case.again);
        let whole = check_column(&case, &drops, &column)?;
        let (latency_ms, connected_ms) = latencies_ms(&whole, &case);
        // Who is connected waits a round trip and no longer.
        prop_assert!((connected_ms - f64::from(case.rtt_ms)).abs() <= 1.0);

        let timeout_share = column.p_star;
        let column = table_3_rate_based(p, &schedule, rtt_s, offered_per_s);
        let drops = rate_based(column.drop_probability, case.again);
        let random = check_column(&case, &drops, &column)?;
        if case.again > 0 && timeout_share > 0.05 {
            prop_assert!(syns(&whole) < syns(&random));
            prop_assert!(latency_ms < latencies_ms(&random, &case).0);
        }
    }
}

/// The times themselves, without chance: who gets through at the j-th SYN has waited T_j and a
/// round trip.
#[test]
fn latency_is_when_the_syn_was_sent_and_a_round_trip() {
    for os in Os::all() {
        for again in 0..os.syn_again_ms.len().min(4) {
            let case = Case { os, again, rtt_ms: 40, seed: 1 };
            let mut drops = vec![1.0; again + 1];
            drops[again] = 0.0;
            let outcome = case.run(&drops);
            assert_eq!(outcome.attempts, outcome.replies, "{} {again}", os.name);
            let expected_ms = case.sent_ms(again) + 80.0;
            for found_ms in [outcome.response_ms.p50, outcome.response_ms.max] {
                let off = (found_ms / expected_ms - 1.0).abs();
                assert!(off < COARSE, "{} {again}: {found_ms} ms for {expected_ms} ms", os.name);
            }
        }
    }
}
