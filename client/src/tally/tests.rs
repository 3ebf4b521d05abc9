// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every attempt once, and when.

use super::*;

#[test]
fn every_attempt_is_counted_once() {
    let ends = [
        End::Replied,
        End::HttpError,
        End::Refused,
        End::Reset,
        End::TimedOutConnecting,
        End::TimedOutWaiting,
        End::ClosedEarly,
        End::Nonsense,
        End::Withdrawn,
        End::Other(Errno::EMFILE as i32),
    ];
    let mut tally = Tally::new(0..2 * SECOND_NS);
    for end in ends {
        tally.ended(end, SECOND_NS, 4 * SECOND_NS, None);
        // Warm-up and cool-down do not count.
        tally.ended(end, 2 * SECOND_NS, 4 * SECOND_NS, Some(1));
    }
    for _ in 0..3 {
        tally.not_started(SECOND_NS);
        tally.not_started(2 * SECOND_NS);
    }
    let outcome = tally.outcome(7);
    assert_eq!(outcome.attempts, ends.len() as u64 + 3);
    assert_eq!(outcome.attempts, outcome.replies + outcome.errors.total());
    assert_eq!(outcome.errors.other["EMFILE"], 1);
    assert_eq!(outcome.syns_per_attempt, BTreeMap::new());
    assert_eq!(outcome.replies_per_s, 0.0, "the reply came after the time that counts");
    for measured in [outcome.response_ms.mean, outcome.response_ms.p99, outcome.refusal_ms.max] {
        assert!((measured / 3000.0 - 1.0).abs() < 0.002, "{measured}");
    }
    assert_eq!(outcome.response_ms.ci95, None, "nine slices had no reply");
}

#[test]
fn intervals_are_students_for_ten_slices() {
    // Slices of 1 s with replies after 10, 20, … 100 ms: mean 55, deviation 30.2765, and
    // 2.262 * 30.2765 / sqrt(10) = 21.657. Slices have 1, 2, … 10 replies.
    let mut tally = Tally::new(5 * SECOND_NS..15 * SECOND_NS);
    for slice in 1..=10 {
        let intended_ns = (4 + slice) * SECOND_NS;
        for _ in 0..slice {
            let now_ns = intended_ns + slice * 10_000_000;
            tally.answered(1, now_ns);
            tally.ended(End::Replied, intended_ns, now_ns, Some(2));
        }
    }
    let outcome = tally.outcome(1);
    let near = |got: Option<f64>, expected: f64| (got.unwrap() / expected - 1.0).abs() < 1e-3;
    assert!(near(outcome.response_ms.ci95, 21.657), "{:?}", outcome.response_ms.ci95);
    assert_eq!(outcome.replies_per_s, 5.5);
    assert!(near(outcome.replies_per_s_ci95, 2.1657), "{:?}", outcome.replies_per_s_ci95);
    assert_eq!(outcome.syns_per_attempt[&2], SynClass { attempts: 55, errors: 0 });
    let within = [3, 10, 30, 100, 7500].map(|ms| outcome.replies_within_ms[&ms]);
    assert_eq!(within, [0, 1, 1 + 2 + 3, 55, 55]);
}

#[test]
fn a_second_has_those_that_start_in_it_and_the_replies_that_come_in_it() {
    let mut tally = Tally::new(5 * SECOND_NS..7 * SECOND_NS + 1);
    let at = |tenths: u64| tenths * SECOND_NS / 10;
    tally.answered(3, at(61));
    tally.ended(End::Replied, at(50), at(61), Some(1));
    tally.ended(End::TimedOutConnecting, at(59), at(99), Some(4));
    tally.ended(End::Refused, at(60), at(60), None);
    tally.not_started(at(69));
    // Before and after the time that counts.
    tally.answered(1, at(49));
    tally.ended(End::Replied, at(49), at(49), Some(2));
    tally.not_started(at(71));
    let second = |started, repeated, failed, replies| Second { started, repeated, failed, replies };
    let expected = [second(2, 1, 1, 0), second(2, 0, 2, 3), second(0, 0, 0, 0)];
    assert_eq!(tally.outcome(1).seconds, expected);
}

#[test]
fn syns_are_counted_by_class_with_their_errors() {
    let mut tally = Tally::new(0..SECOND_NS);
    tally.ended(End::Replied, 0, 1, Some(1));
    tally.ended(End::TimedOutConnecting, 0, 1, Some(3));
    tally.ended(End::Replied, 0, 1, Some(3));
    let outcome = tally.outcome(1);
    assert_eq!(outcome.syns_per_attempt[&1], SynClass { attempts: 1, errors: 0 });
    assert_eq!(outcome.syns_per_attempt[&3], SynClass { attempts: 2, errors: 1 });
}

#[test]
fn visits_are_counted_apart_from_their_attempts() {
    let mut tally = Tally::new(SECOND_NS..2 * SECOND_NS);
    for intended_ns in [SECOND_NS, SECOND_NS, SECOND_NS + 1, 2 * SECOND_NS] {
        tally.visit_started(intended_ns);
    }
    tally.visit_ended(VisitEnd::Complete, SECOND_NS, 3 * SECOND_NS);
    tally.visit_ended(VisitEnd::Complete, SECOND_NS, 5 * SECOND_NS);
    tally.visit_ended(VisitEnd::Abandoned, SECOND_NS + 1, 2 * SECOND_NS + 1);
    // The cool-down's do not count.
    tally.visit_ended(VisitEnd::Complete, 2 * SECOND_NS, 3 * SECOND_NS);
    let outcome = tally.outcome(1);
    assert_eq!(outcome.attempts, 0);
    let visits = outcome.visits.unwrap();
    assert_eq!((visits.started, visits.completed, visits.abandoned), (3, 2, 1));
    assert!((visits.page_ms.mean / 3000.0 - 1.0).abs() < 0.002, "{visits:?}");
    assert!((visits.page_ms.max / 4000.0 - 1.0).abs() < 0.002, "{visits:?}");
    assert!((visits.abandoned_ms.mean / 1000.0 - 1.0).abs() < 0.002, "{visits:?}");
}

#[test]
fn a_part_has_those_of_it_that_were_never_started() {
    let mut tally = Tally::new(0..SECOND_NS).with_parts(2);
    tally.ended(End::Replied, 0, 1, None);
    tally.ended_of(1, End::Replied, 0);
    for intended_ns in [1, SECOND_NS] {
        tally.not_started(intended_ns);
        tally.not_started_of(1, intended_ns);
    }
    let outcome = tally.outcome(1);
    assert_eq!(outcome.attempts, 2);
    assert_eq!(outcome.parts, [Part::default(), Part { attempts: 2, replies: 1 }]);
}

#[test]
fn lateness_is_that_of_attempts_that_count() {
    let mut tally = Tally::new(0..SECOND_NS);
    tally.started(10, 10 + 5_000_000);
    tally.started(SECOND_NS, 9 * SECOND_NS);
    let late = tally.outcome(1).late_starts;
    assert!((late.max_ms / 5.0 - 1.0).abs() < 0.002, "{late:?}");
    assert_eq!(late.over_1ms, 1);
}
