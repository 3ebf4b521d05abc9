// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model of persistent clients: Jamjoom and Shin, "Persistent Dropping: An Efficient Control
//! of Traffic Aggregates" (SIGCOMM 2003), Equations 1 to 7 and 9, Table 3, and the network of
//! queues of section 3.2. Times in seconds, rates a second, probabilities from 0 to 1.
//!
//! A client sends its SYN at T₀ = 0, T₁, …, Tₙ ([`Schedule::attempts_s`]) and gives up at
//! T_abort ([`Schedule::abort_s`]). Equation 8 is the hash of a controller: it is in the policy.

/// When a client sends its SYN, and when it gives up.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// T₀ to Tₙ, seconds after the first SYN; T₀ is 0.
    pub attempts_s: Vec<f64>,
    /// T_abort, seconds; not before Tₙ.
    pub abort_s: f64,
}

impl Schedule {
    /// The first SYN, then retransmissions at these times.
    pub fn new(retransmissions_s: &[f64], abort_s: f64) -> Self {
        let attempts_s = std::iter::once(0.0).chain(retransmissions_s.iter().copied()).collect();
        Schedule { attempts_s, abort_s }
    }

    /// n, the retransmissions before the client gives up.
    pub fn retransmissions(&self) -> usize {
        self.attempts_s.len() - 1
    }
}

/// p* of rate-based dropping, section 2.1.1: p^(n+1), where each SYN is dropped with `p`.
pub fn effective_timeout_probability(p: f64, retransmissions: usize) -> f64 {
    p.powi(retransmissions as i32 + 1)
}

/// The p of rate-based dropping that comes to p*, section 3.4.2: (p*)^(1/(n+1)).
pub fn uniform_probability(p_star: f64, retransmissions: usize) -> f64 {
    p_star.powf(1.0 / (retransmissions as f64 + 1.0))
}

/// Equation 1: `E[L_h]`, the mean time until a connection stands or is given up, seconds, where
/// each SYN is dropped with probability `p`.
///
/// `E[L_h] = Σⱼ₌₀ⁿ pʲ (1 − p)(Tⱼ + RTT) + pⁿ⁺¹ T_abort`
pub fn establishment_latency_s(p: f64, schedule: &Schedule, rtt_s: f64) -> f64 {
    let established: f64 = schedule
        .attempts_s
        .iter()
        .enumerate()
        .map(|(j, t)| p.powi(j as i32) * (1.0 - p) * (t + rtt_s))
        .sum();
    established + effective_timeout_probability(p, schedule.retransmissions()) * schedule.abort_s
}

/// Equation 2: Λ, all SYNs a second, of `new_per_s` (λ₀) new requests a second, where each SYN is
/// dropped with probability `p`.
///
/// Λ = (1 − pⁿ⁺¹) / (1 − p) λ₀; (n + 1) λ₀ where all are dropped (the paper's footnote 2).
pub fn arrivals_per_s(p: f64, retransmissions: usize, new_per_s: f64) -> f64 {
    if p >= 1.0 {
        return (retransmissions as f64 + 1.0) * new_per_s;
    }
    (1.0 - effective_timeout_probability(p, retransmissions)) / (1.0 - p) * new_per_s
}

/// A visit of section 2.3: a page, then what is embedded in it, all at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Visit {
    /// m, the parallel connections expected.
    pub parallel: f64,
    /// γ, the mean time between their starts, seconds.
    pub interarrival_s: f64,
    /// `E[T_c]`, the mean time to complete one request, seconds.
    pub request_s: f64,
}

/// Equation 3: EV, the expected time of a visit, seconds, where a request times out with
/// probability `p_star` after `abort_s`.
///
/// `EV = p* T_abort + q* [ E[T_c] + (1 − q*ᵐ)(T_abort + Ψ) + q*ᵐ (E[T_c] + Ψ) ]`, with q* = 1 − p*
/// and Ψ = m γ.
pub fn visit_s(p_star: f64, abort_s: f64, visit: &Visit) -> f64 {
    let q_star = 1.0 - p_star;
    let all_succeed = q_star.powf(visit.parallel);
    let launching_s = visit.parallel * visit.interarrival_s;
    p_star * abort_s
        + q_star
            * (visit.request_s
                + (1.0 - all_succeed) * (abort_s + launching_s)
                + all_succeed * (visit.request_s + launching_s))
}

/// Equation 4: Λ, all SYNs a second, where SYNs of transmission class i are dropped with
/// probability `p[i]`, i from 0 to n.
///
/// Λ = λ₀ + p₀ λ₀ + p₀ p₁ λ₀ + … + (Πᵢ₌₀ⁿ⁻¹ pᵢ) λ₀
pub fn arrivals_by_class_per_s(p: &[f64], new_per_s: f64) -> f64 {
    let mut class_per_s = new_per_s;
    let mut all_per_s = 0.0;
    for p in p {
        all_per_s += class_per_s;
        class_per_s *= p;
    }
    all_per_s
}

/// p* where SYNs of class i are dropped with probability `p[i]`: Π pᵢ (section 3.1).
pub fn effective_timeout_by_class(p: &[f64]) -> f64 {
    p.iter().product()
}

/// Equation 5: what the time until a connection stands or is given up may be, seconds, each with
/// its probability; in the order of time, the giving up last. (The paper's third line prints h
/// where n is meant.)
///
/// # Panics
///
/// Where `p` has not as many classes as the schedule has attempts.
pub fn latency_distribution(p: &[f64], schedule: &Schedule, rtt_s: f64) -> Vec<(f64, f64)> {
    assert_eq!(p.len(), schedule.attempts_s.len(), "a drop probability for each attempt");
    let mut reached = 1.0;
    let mut outcomes = Vec::with_capacity(p.len() + 1);
    for (p, t) in p.iter().zip(&schedule.attempts_s) {
        outcomes.push((t + rtt_s, reached * (1.0 - p)));
        reached *= p;
    }
    outcomes.push((schedule.abort_s, reached));
    outcomes
}

/// Equation 6: `E[L_h]`, seconds, with a drop probability for each transmission class.
///
/// # Panics
///
/// Where `p` has not as many classes as the schedule has attempts.
pub fn establishment_latency_by_class_s(p: &[f64], schedule: &Schedule, rtt_s: f64) -> f64 {
    latency_distribution(p, schedule, rtt_s).iter().map(|(time, chance)| time * chance).sum()
}

/// Equation 7: EL_s, the mean time until those connections stand that are not given up, seconds;
/// `None` where all are.
///
/// # Panics
///
/// Where `p` has not as many classes as the schedule has attempts.
pub fn successful_latency_s(p: &[f64], schedule: &Schedule, rtt_s: f64) -> Option<f64> {
    successful_moments(p, schedule, rtt_s).map(|(mean, _)| mean)
}

/// The variance of the same, seconds squared: "they can be directly computed using Eq. (5)"
/// (section 3.1; Figure 7, right). It is 0 with persistent dropping.
///
/// # Panics
///
/// Where `p` has not as many classes as the schedule has attempts.
pub fn successful_latency_variance_s2(p: &[f64], schedule: &Schedule, rtt_s: f64) -> Option<f64> {
    successful_moments(p, schedule, rtt_s).map(|(_, variance)| variance)
}

fn successful_moments(p: &[f64], schedule: &Schedule, rtt_s: f64) -> Option<(f64, f64)> {
    let mut outcomes = latency_distribution(p, schedule, rtt_s);
    outcomes.pop();
    let succeed: f64 = outcomes.iter().map(|(_, chance)| chance).sum();
    if succeed <= 0.0 {
        return None;
    }
    let mean = outcomes.iter().map(|(time, chance)| time * chance).sum::<f64>() / succeed;
    let squares = outcomes.iter().map(|(time, chance)| (time - mean).powi(2) * chance).sum::<f64>();
    Some((mean, squares / succeed))
}

/// The drop probabilities of each class under rate-based dropping: all `p`.
pub fn rate_based(p: f64, retransmissions: usize) -> Vec<f64> {
    vec![p; retransmissions + 1]
}

/// The drop probabilities of each class under persistent dropping, the optimum of section 3.1:
/// p₀ = p*, and 1 for every retransmission.
pub fn persistent(p_star: f64, retransmissions: usize) -> Vec<f64> {
    let mut p = vec![1.0; retransmissions + 1];
    p[0] = p_star;
    p
}

/// Equation 9: M, the entries of the table of state-based dropping, for at most `new_per_s`
/// (λ₀ᵐᵃˣ) new requests a second, which are given up after `abort_s` (T_abortᵐᵃˣ, 75 in section
/// 3.4.2) at the latest; `over_design` is σ, 1 at least ("1.2 is adequate").
pub fn table_entries(new_per_s: f64, abort_s: f64, over_design: f64) -> f64 {
    new_per_s * abort_s * over_design
}

/// A column of Table 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Drop probability of new requests.
    pub drop_probability: f64,
    /// Effective timeout probability, p*: the same in both columns.
    pub p_star: f64,
    /// Expected connection-establishment latency, EL_h, seconds.
    pub latency_s: f64,
    /// SYNs of a connection. (The paper calls the row "expected number of retransmissions", but
    /// its entries count the first transmission too: they are Λ / λ₀.)
    pub transmissions: f64,
    /// Effective arrival rate, Λ, SYNs a second.
    pub arrivals_per_s: f64,
}

/// Table 3, left: rate-based random dropping of each SYN with probability `p`.
pub fn table_3_rate_based(p: f64, schedule: &Schedule, rtt_s: f64, new_per_s: f64) -> Comparison {
    let n = schedule.retransmissions();
    Comparison {
        drop_probability: p,
        p_star: effective_timeout_probability(p, n),
        latency_s: establishment_latency_s(p, schedule, rtt_s),
        transmissions: arrivals_per_s(p, n, 1.0),
        arrivals_per_s: arrivals_per_s(p, n, new_per_s),
    }
}

/// Table 3, right: persistent dropping to the same p*, pⁿ⁺¹. Its latency is
/// (1 − pⁿ⁺¹) RTT + pⁿ⁺¹ T_abort, its arrival rate (1 + n pⁿ⁺¹) λ₀.
pub fn table_3_persistent(p: f64, schedule: &Schedule, rtt_s: f64, new_per_s: f64) -> Comparison {
    let n = schedule.retransmissions();
    let p_star = effective_timeout_probability(p, n);
    let transmissions = 1.0 + n as f64 * p_star;
    Comparison {
        drop_probability: p_star,
        p_star,
        latency_s: (1.0 - p_star) * rtt_s + p_star * schedule.abort_s,
        transmissions,
        arrivals_per_s: transmissions * new_per_s,
    }
}

/// Section 3.2: the probability that one attempt passes `queues` (m) rate-based queues in series,
/// (1 − p)ᵐ.
pub fn passes_rate_based(p: f64, queues: u32) -> f64 {
    (1.0 - p).powf(queues.into())
}

/// Section 3.2: the probability that a request passes as many persistent queues, each to the p* of
/// the rate-based one, (1 − pⁿ⁺¹)ᵐ.
pub fn passes_persistent(p: f64, retransmissions: usize, queues: u32) -> f64 {
    (1.0 - effective_timeout_probability(p, retransmissions)).powf(queues.into())
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::{Browser, End, visit};

    /// Windows 9x and NT of Table 1, which give up at 40 s: Figure 7, center.
    fn figure_7_center() -> Schedule {
        Schedule::new(&[3.0, 9.0, 21.0], 40.0)
    }

    const RTT_S: f64 = 0.1;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    /// "a 50% drop at the router will … increase the amount of new connection requests by 75%"
    /// (2.1.1): for the clients that send two retransmissions, Windows 2000's.
    #[test]
    fn half_dropped_is_three_quarters_more_requests() {
        assert!(close(arrivals_per_s(0.5, 2, 100.0), 175.0));
        assert!(close(arrivals_per_s(1.0, 2, 100.0), 300.0), "footnote 2");
        assert!(close(arrivals_per_s(1.0 - 1e-12, 2, 1.0).round(), 3.0), "its limit");
        assert!(close(arrivals_per_s(0.0, 2, 100.0), 100.0));
    }

    /// "a traffic controller that uses RBD … with a probability of 0.56 achieves an effective
    /// timeout probability of 0.1", and "about a 50% reduction in their mean request delay" (4.2).
    #[test]
    fn a_tenth_costs_half_the_delay_with_persistent_dropping() {
        let schedule = figure_7_center();
        let p = uniform_probability(0.1, schedule.retransmissions());
        assert!((p - 0.56).abs() < 0.005, "{p}");
        assert!((effective_timeout_probability(0.56, 3) - 0.1).abs() < 0.002);
        let random = table_3_rate_based(p, &schedule, 0.0, 80.0);
        let persistent = table_3_persistent(p, &schedule, 0.0, 80.0);
        let reduction = 1.0 - persistent.latency_s / random.latency_s;
        assert!((0.45..0.55).contains(&reduction), "{reduction}");
        assert!((persistent.latency_s - 4.0).abs() < 1e-9, "0.1 of 40 s");
    }

    /// m = 5, p = 0.05, n = 4: "0.77 and 0.99 for the uniform rate-based and the PD policy" (3.2).
    #[test]
    fn a_network_of_five_queues() {
        assert!((passes_rate_based(0.05, 5) - 0.77).abs() < 0.005);
        assert!(passes_persistent(0.05, 4, 5) > 0.99);
    }

    #[test]
    fn nobody_passes_more_queues_than_there_are() {
        for queues in [i32::MAX.unsigned_abs(), 1 << 31, u32::MAX] {
            assert!(passes_rate_based(0.05, queues) < 1e-9, "{queues}");
            assert!(passes_persistent(0.05, 4, queues) < 1e-9, "{queues}");
        }
    }

    /// Equations 1 and 2 are 6 and 4 with the same probability in every class.
    #[test]
    fn equal_classes_are_rate_based_dropping() {
        let schedule = Schedule::new(&[3.0, 9.0, 21.0, 45.0], 75.0);
        for p in [0.0, 0.05, 0.3, 0.56, 0.9, 1.0] {
            let classes = rate_based(p, 4);
            let by_class = establishment_latency_by_class_s(&classes, &schedule, RTT_S);
            assert!(close(by_class, establishment_latency_s(p, &schedule, RTT_S)), "p = {p}");
            let arrivals = arrivals_by_class_per_s(&classes, 60.0);
            assert!(close(arrivals, arrivals_per_s(p, 4, 60.0)), "p = {p}");
            let p_star = effective_timeout_by_class(&classes);
            assert!(close(p_star, effective_timeout_probability(p, 4)), "p = {p}");
            let random = table_3_rate_based(p, &schedule, RTT_S, 60.0);
            assert!(close(random.latency_s, by_class) && close(random.arrivals_per_s, arrivals));
        }
    }

    /// Table 3's right column is Equations 4 and 6 with p₀ = p* and all others 1.
    #[test]
    fn table_3_is_the_equations_at_their_optimum() {
        let schedule = Schedule::new(&[3.0, 9.0, 21.0, 45.0], 75.0);
        for p in [0.0, 0.1, 0.5, 0.8, 1.0] {
            let column = table_3_persistent(p, &schedule, RTT_S, 60.0);
            let classes = persistent(column.p_star, 4);
            let latency = establishment_latency_by_class_s(&classes, &schedule, RTT_S);
            assert!(close(column.latency_s, latency), "p = {p}");
            let arrivals = arrivals_by_class_per_s(&classes, 60.0);
            assert!(close(column.arrivals_per_s, arrivals), "p = {p}");
            assert!(close(column.transmissions * 60.0, arrivals));
            assert!(close(effective_timeout_by_class(&classes), column.p_star));
        }
    }

    /// "It suffices to show that if we set p₀ = p* and pᵢ = 1 … then EL_h is minimized" (3.1): no
    /// other choice with the same product is better, by latency or by arrivals.
    #[test]
    fn persistent_dropping_is_the_optimum() {
        let schedule = figure_7_center();
        let p_star: f64 = 0.1;
        let best = persistent(p_star, 3);
        let best_s = establishment_latency_by_class_s(&best, &schedule, RTT_S);
        let best_per_s = arrivals_by_class_per_s(&best, 1.0);
        let steps = 12;
        for a in 0..=steps {
            for b in 0..=steps - a {
                for c in 0..=steps - a - b {
                    // Shares of log p*, so that the product is p*.
                    let d = steps - a - b - c;
                    let p: Vec<f64> =
                        [a, b, c, d].map(|s| p_star.powf(f64::from(s) / f64::from(steps))).into();
                    let latency_s = establishment_latency_by_class_s(&p, &schedule, RTT_S);
                    assert!(latency_s >= best_s - 1e-9, "{p:?}");
                    assert!(arrivals_by_class_per_s(&p, 1.0) >= best_per_s - 1e-9, "{p:?}");
                }
            }
        }
    }

    #[test]
    fn the_distribution_is_whole() {
        let schedule = figure_7_center();
        let outcomes = latency_distribution(&[0.5, 0.25, 0.1, 0.4], &schedule, RTT_S);
        let chances: f64 = outcomes.iter().map(|(_, chance)| chance).sum();
        assert!(close(chances, 1.0));
        let times: Vec<f64> = outcomes.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [0.1, 3.1, 9.1, 21.1, 40.0]);
        assert!(close(outcomes[2].1, 0.5 * 0.25 * 0.9));
    }

    /// Equation 7 is Equation 6 without its last term, over 1 − p*; and with persistent dropping
    /// a success takes one RTT, always (Figure 7, right).
    #[test]
    fn who_succeeds_under_persistent_dropping_does_so_at_once() {
        let schedule = Schedule::new(&[3.0, 9.0], 20.0);
        let n = schedule.retransmissions();
        for p in [0.1, 0.5, 0.9] {
            let p_star = effective_timeout_probability(p, n);
            let random = rate_based(p, n);
            let all = establishment_latency_by_class_s(&random, &schedule, RTT_S);
            let expected = (all - p_star * schedule.abort_s) / (1.0 - p_star);
            let mean = successful_latency_s(&random, &schedule, RTT_S).expect("some succeed");
            assert!(close(mean, expected));
            // As the paper writes it.
            let written = RTT_S + (p * (1.0 - p) * 3.0 + p * p * (1.0 - p) * 9.0) / (1.0 - p_star);
            assert!(close(mean, written));
            let spread = successful_latency_variance_s2(&random, &schedule, RTT_S).expect("some");
            assert!(spread > 0.5, "{spread}");
            let pd = persistent(p_star, n);
            assert!(close(successful_latency_s(&pd, &schedule, RTT_S).expect("some"), RTT_S));
            let spread = successful_latency_variance_s2(&pd, &schedule, RTT_S).expect("some");
            assert!(spread.abs() < 1e-12, "{spread}");
        }
        assert_eq!(successful_latency_s(&[1.0, 1.0, 1.0], &schedule, RTT_S), None);
    }

    #[test]
    fn a_visit_is_as_long_as_its_slowest_request() {
        let ie_6 = Visit { parallel: 6.0, interarrival_s: 0.1612, request_s: 0.36 };
        // Nothing is lost: a page, the launching, the last request.
        assert!(close(visit_s(0.0, 20.0, &ie_6), 0.36 + 6.0 * 0.1612 + 0.36));
        // Nothing gets through: the page is given up.
        assert!(close(visit_s(1.0, 20.0, &ie_6), 20.0));
        // By hand, p* = 0.5 and m = 1: 10 + 0.5 (1 + 0.5 (20 + 2) + 0.5 (1 + 2)).
        let one = Visit { parallel: 1.0, interarrival_s: 2.0, request_s: 1.0 };
        assert!(close(visit_s(0.5, 20.0, &one), 10.0 + 0.5 * (1.0 + 11.0 + 1.5)));
    }

    const VISITS: u32 = 20_000;

    /// The mean time of as many visits of a browser to a page with so many objects, seconds, of whose requests
    /// each is over after `request_s`, or, one in `1 / p_star`, after `abort_s` without a reply.
    fn browsed_s(browser: &str, objects: u16, p_star: f64, request_s: f64, abort_s: f64) -> f64 {
        let (browser, mut rng) = (Browser::named(browser).unwrap(), ChaCha8Rng::seed_from_u64(8));
        let mut browse = || {
            let mut visit = visit::Visit::begin(browser, objects, 0, &mut rng);
            let (mut under_way, mut now_ns) = (BinaryHeap::<Reverse<(u64, _, _)>>::new(), 0);
            while visit.end().is_none() {
                let next = under_way.peek().map(|Reverse((ends_ns, ..))| *ends_ns);
                match visit.next_start_ns().filter(|ns| next.is_none_or(|ends_ns| *ns <= ends_ns)) {
                    Some(starts_ns) => {
                        let start = visit.start(starts_ns, &mut rng).unwrap();
                        let fails = f64::from(rng.next_u32()) < p_star * f64::from(u32::MAX);
                        let takes_s = if fails { abort_s } else { request_s };
                        let ends_ns = starts_ns + (takes_s * 1e9) as u64;
                        under_way.push(Reverse((ends_ns, start.number, fails)));
                    }
                    None => {
                        let Reverse((ends_ns, number, fails)) = under_way.pop().unwrap();
                        let end = if fails { End::TimedOutConnecting } else { End::Replied };
                        now_ns = ends_ns;
                        visit.ended(now_ns, number, end);
                    }
                }
            }
            now_ns as f64 / 1e9
        };
        (0..VISITS).map(|_| browse()).sum::<f64>() / f64::from(VISITS)
    }

    /// Equation 3 against visits as the emulator's browsers make them. Today's has six connections at once.
    #[test]
    fn a_visit_takes_as_long_as_one_of_the_emulators() {
        let (request_s, abort_s) = (0.36, 20.0);
        let at_once = Visit { parallel: 6.0, interarrival_s: 0.0, request_s };
        for p_star in [0.0, 0.02, 0.1, 0.3, 0.8, 1.0] {
            let seen_s = browsed_s("chrome", 6, p_star, request_s, abort_s);
            let expected_s = visit_s(p_star, abort_s, &at_once);
            assert!(
                (seen_s / expected_s - 1.0).abs() < 0.02,
                "{seen_s} s, {expected_s} s: {p_star}"
            );
        }
    }

    /// "Ψ = mγ is the approximate overhead of launching m parallel connections" (2.3, E3): there are m − 1 gaps
    /// between them.
    #[test]
    fn launching_is_counted_with_a_gap_more_than_there_are() {
        let (netscape_7, mut rng) =
            (Browser::named("netscape-7").unwrap(), ChaCha8Rng::seed_from_u64(9));
        let gaps_ns = (0..VISITS).map(|_| netscape_7.gap_ns(&mut rng)).sum::<u64>();
        let interarrival_s = gaps_ns as f64 / 1e9 / f64::from(VISITS);
        // One request a connection, and as many connections as the page has objects.
        let visit = Visit { parallel: 3.0, interarrival_s, request_s: 0.001 };
        let seen_s = browsed_s("netscape-7", 3, 0.0, visit.request_s, 20.0);
        let expected_s = visit_s(0.0, 20.0, &visit) - interarrival_s;
        assert!((seen_s / expected_s - 1.0).abs() < 0.02, "{seen_s} s, {expected_s} s");
    }

    /// λ₀ᵐᵃˣ = 60 a second, T_abortᵐᵃˣ = 75 s and σ = 1.2, all the paper's.
    #[test]
    fn the_table_of_equation_9() {
        assert!(close(table_entries(60.0, 75.0, 1.2), 5400.0));
    }
}
