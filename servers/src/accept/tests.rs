// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences of Pariag's thesis, one a test; then what holds for any sequence of events.

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

use super::{
    AcceptLimit, Bounds, ENOUGH_OF_LONG, NonZeroU32, Phase, Queues, SATURATED_AFTER,
    STARVED_AFTER_NS, Strategy,
};

const UNKNOWN: Queues = Queues { listen: None, work: 10 };

fn at_most(connections: u32) -> AcceptLimit {
    AcceptLimit::AtMost(NonZeroU32::new(connections).unwrap())
}

fn queues(listen: u32, work: u32) -> Queues {
    Queues { listen: Some(listen), work }
}

/// Runs one accept phase against a queue of so many whose length is not known, and says how many
/// were accepted.
fn accept_phase(strategy: &mut Strategy, waiting: u32, now_ns: u64) -> u32 {
    strategy.began(Phase::Accept, UNKNOWN, now_ns);
    let mut accepted = 0;
    while strategy.accept_now(UNKNOWN, now_ns) > 0 {
        if accepted == waiting {
            strategy.ran_dry();
        } else {
            strategy.accepted(now_ns);
            accepted += 1;
        }
    }
    accepted
}

/// A work phase that closes so many.
fn work_phase(strategy: &mut Strategy, closed: u32, now_ns: u64) {
    strategy.began(Phase::Work, UNKNOWN, now_ns);
    for _ in 0..closed {
        strategy.worked();
        strategy.closed();
    }
}

fn saturated() -> Strategy {
    let mut strategy = Strategy::new(AcceptLimit::Dynamic);
    assert_eq!(accept_phase(&mut strategy, SATURATED_AFTER, 0), SATURATED_AFTER);
    assert!(strategy.is_saturated());
    strategy
}

#[test]
fn limits_are_read_as_they_are_written() {
    for text in ["1", "64", "inf", "dynamic"] {
        assert_eq!(text.parse::<AcceptLimit>().unwrap().to_string(), text);
    }
    for text in ["0", "-1", "", "many", "1.5"] {
        let message = text.parse::<AcceptLimit>().unwrap_err().to_string();
        assert!(message.contains("dynamic") && message.lines().count() == 1, "{message}");
    }
}

// "The Accept-1 policy, where the µserver tries to accept a single connection in each
// accept-phase. Similarly, the Accept-10 policy causes the server to accept at most 10 connections
// in each accept-phase." (4.1.1)
#[test]
fn accept_n_accepts_at_most_n_in_each_accept_phase() {
    for limit in [1, 10, 50] {
        let mut strategy = Strategy::new(at_most(limit));
        for waiting in [1000, 3, 0] {
            assert_eq!(accept_phase(&mut strategy, waiting, 0), limit.min(waiting));
        }
    }
}

// "The Accept-Inf policy causes the server to drain its accept queue, meaning that it accepts all
// pending connections." (4.1.1)
#[test]
fn accept_inf_drains_the_accept_queue() {
    let mut strategy = Strategy::new(AcceptLimit::Inf);
    assert_eq!(accept_phase(&mut strategy, 100_000, 0), 100_000);
    assert_eq!(accept_phase(&mut strategy, 0, 0), 0);
}

// "If there are no pending connections, then no new connections are admitted in that
// accept-phase." (3.1.1)
#[test]
fn an_empty_queue_that_is_known_is_not_asked() {
    for limit in [at_most(10), AcceptLimit::Inf, AcceptLimit::Dynamic] {
        let mut strategy = Strategy::new(limit);
        strategy.began(Phase::Accept, queues(0, 5), 0);
        assert_eq!(strategy.accept_now(queues(0, 5), 0), 0);
        assert_eq!(strategy.next_phase(queues(0, 5), 0), Phase::Work);
    }
}

// "In the work-phase, TUX processes all items in the work_pending queue before starting the next
// accept-phase." (3.1.3)
#[test]
fn a_fixed_limit_works_off_the_work_queue_before_it_accepts_again() {
    for limit in [at_most(1), AcceptLimit::Inf] {
        let mut strategy = Strategy::new(limit);
        strategy.began(Phase::Work, UNKNOWN, 0);
        for left in (1..20_000).rev() {
            strategy.worked();
            assert_eq!(strategy.next_phase(queues(128, left), 300_000_000), Phase::Work);
        }
        assert_eq!(strategy.next_phase(queues(128, 0), 300_000_000), Phase::Accept);
    }
}

// "An accept policy that accepted new connections aggressively when the server is not saturated."
// (6)
#[test]
fn dynamic_accepts_aggressively_when_it_is_not_saturated() {
    let mut strategy = Strategy::new(AcceptLimit::Dynamic);
    for _ in 0..100 {
        assert_eq!(accept_phase(&mut strategy, 12, 0), 12);
        work_phase(&mut strategy, 1, 0);
        strategy.idle();
    }
    assert!(!strategy.is_saturated());
}

// "After saturation, the policy would accept as many connections as were closed in the previous
// work phase." (6)
#[test]
fn dynamic_accepts_as_many_as_were_closed_once_it_is_saturated() {
    let mut strategy = saturated();
    for closed in [7, 0, 31, 1] {
        work_phase(&mut strategy, closed, 0);
        assert_eq!(accept_phase(&mut strategy, 1000, 0), closed);
    }
    assert!(strategy.is_saturated());
}

// "It is conceivable that the Accept-Inf policy could allow a server to spend a disproportionate
// amount of time accepting new connections. […] Under these conditions an accept-phase would not
// terminate." (6)
#[test]
fn dynamic_ends_an_accept_phase_even_if_the_queue_never_empties() {
    let mut strategy = Strategy::new(AcceptLimit::Dynamic);
    assert_eq!(accept_phase(&mut strategy, u32::MAX, 0), SATURATED_AFTER);
    assert_eq!(accept_phase(&mut strategy, u32::MAX, 0), 0);
}

// "Our simple method of controlling how TUX accepts new connections does not allow us to accept
// less than one connection in each accept phase." (4.2.2)
#[test]
fn dynamic_may_accept_nobody() {
    let mut strategy = saturated();
    work_phase(&mut strategy, 0, 0);
    strategy.began(Phase::Accept, queues(128, 3), 0);
    assert_eq!(strategy.accept_now(queues(128, 3), 0), 0);
}

// "We also believe that limits should be placed on the amount of time spent in each phase,
// possibly by limiting the number of consecutive events that are processed from each queue."
// (4.2.2)
#[test]
fn dynamic_leaves_a_phase_in_time() {
    let bounds = Bounds { time_ns: 1000, items: 3 };
    let mut strategy = Strategy::within(AcceptLimit::Dynamic, bounds);
    assert_eq!(accept_phase(&mut strategy, 100, 0), 3);
    strategy.began(Phase::Accept, UNKNOWN, 0);
    assert_eq!(strategy.accept_now(UNKNOWN, 999), 3);
    assert_eq!(strategy.accept_now(UNKNOWN, 1000), 0);
    strategy.began(Phase::Work, UNKNOWN, 5000);
    assert_eq!(strategy.next_phase(UNKNOWN, 5999), Phase::Work);
    assert_eq!(strategy.next_phase(UNKNOWN, 6000), Phase::Accept);
    for _ in 0..3 {
        strategy.worked();
    }
    assert_eq!(strategy.next_phase(UNKNOWN, 5000), Phase::Accept);
}

// "The best way to control the accept strategy used in TUX, and to control the scheduling of work
// in general, is to track the number of entries contained in the accept_queue and the number of
// entries in work_pending queue." (4.2.2)
#[test]
fn dynamic_goes_where_more_waits_until_it_is_saturated() {
    let mut strategy = Strategy::new(AcceptLimit::Dynamic);
    strategy.began(Phase::Work, queues(9, 10), 0);
    assert_eq!(strategy.next_phase(queues(10, 10), 0), Phase::Work);
    assert_eq!(strategy.next_phase(queues(11, 10), 0), Phase::Accept);
    let mut strategy = saturated();
    strategy.began(Phase::Work, queues(9, 10), 0);
    assert_eq!(strategy.next_phase(queues(11, 10), 0), Phase::Work);
}

// "If the server accepts new connections slower than they are being completed, the number of open
// connections will decrease over time." (6)
#[test]
fn dynamic_makes_up_for_a_queue_that_ran_dry() {
    let mut strategy = saturated();
    work_phase(&mut strategy, 10, 0);
    assert_eq!(accept_phase(&mut strategy, 4, 0), 4);
    work_phase(&mut strategy, 1, 0);
    assert_eq!(accept_phase(&mut strategy, 1000, 0), 7);
}

#[test]
fn dynamic_leaves_those_who_come_meanwhile_to_the_next_phase() {
    let mut strategy = saturated();
    work_phase(&mut strategy, 200, 0);
    for accepts in [128, 72] {
        strategy.began(Phase::Accept, queues(128, 9), 0);
        for _ in 0..accepts {
            assert!(strategy.accept_now(queues(128, 9), 0) > 0);
            strategy.accepted(0);
        }
        assert_eq!(strategy.accept_now(queues(128, 9), 0), 0);
    }
}

#[test]
fn dynamic_goes_on_with_as_many_as_saturated_it() {
    let mut strategy = Strategy::new(AcceptLimit::Dynamic);
    accept_phase(&mut strategy, SATURATED_AFTER - 100, 0);
    work_phase(&mut strategy, 150, 0);
    assert_eq!(accept_phase(&mut strategy, 100, 0), 100);
    assert!(strategy.is_saturated());
    assert_eq!(accept_phase(&mut strategy, 1000, 0), 150);
}

/// A work phase with so many events, of which some close.
fn work_phase_of(strategy: &mut Strategy, items: u32, closed: u32) {
    work_phase(strategy, closed, 0);
    for _ in closed..items {
        strategy.worked();
    }
}

// "This would allow the server to maintain a roughly constant number of open connections." (6) It
// need not be the same for all.
#[test]
fn dynamic_holds_fewer_of_those_that_stay_and_more_when_they_no_longer_do() {
    let mut strategy = saturated();
    let mut held = SATURATED_AFTER;
    // One in eight closes: the first phase tells.
    let closed = held / 8;
    work_phase_of(&mut strategy, held, closed);
    assert_eq!(accept_phase(&mut strategy, 128, 0), closed);
    for _ in 0..20 {
        work_phase_of(&mut strategy, held, held / 8);
        held -= held / 8;
        held += accept_phase(&mut strategy, 128, 0);
        assert!(held >= ENOUGH_OF_LONG);
    }
    assert_eq!(held, ENOUGH_OF_LONG, "each that closes is replaced now");
    // One in two closes.
    work_phase_of(&mut strategy, 2 * held, held);
    held -= held;
    for accepted in [128, 128, SATURATED_AFTER - 256, 0] {
        assert_eq!(accept_phase(&mut strategy, 128, 0), accepted);
        held += accepted;
    }
    assert_eq!(held, SATURATED_AFTER);
}

/// It accepted all who waited until it was saturated: more than it then needs.
#[test]
fn dynamic_comes_down_to_as_many_as_saturate_it() {
    let mut strategy = Strategy::new(AcceptLimit::Dynamic);
    let mut held = accept_phase(&mut strategy, SATURATED_AFTER + 90, 0);
    for _ in 0..4 {
        work_phase_of(&mut strategy, held, held / 3);
        held -= held / 3;
        held += accept_phase(&mut strategy, 128, 0);
    }
    assert_eq!(held, SATURATED_AFTER);
}

#[test]
fn dynamic_is_aggressive_again_when_it_is_idle() {
    let mut strategy = saturated();
    strategy.idle();
    assert!(!strategy.is_saturated());
    assert_eq!(accept_phase(&mut strategy, 15, 0), 15);
}

// "The µserver could admit new connections only when there was no useful work to be done." (6)
#[test]
fn dynamic_accepts_all_who_wait_when_it_has_nothing_to_work_on() {
    let mut strategy = saturated();
    strategy.began(Phase::Accept, queues(128, 0), 0);
    for accepted in 0..128 {
        assert!(strategy.accept_now(queues(128, accepted), 0) > 0);
        strategy.accepted(0);
    }
    assert_eq!(strategy.accept_now(queues(128, 128), 0), 0);
    strategy.began(Phase::Accept, queues(4096, 0), 0);
    assert_eq!(strategy.accept_now(queues(4096, 0), 0), SATURATED_AFTER);
}

#[test]
fn what_a_bound_cut_off_is_accepted_in_the_next_phase() {
    let bounds = Bounds { time_ns: u64::MAX, items: 1000 };
    let mut strategy = Strategy::within(AcceptLimit::Dynamic, bounds);
    accept_phase(&mut strategy, SATURATED_AFTER, 0);
    work_phase(&mut strategy, 1500, 0);
    assert_eq!(accept_phase(&mut strategy, 2000, 0), 1000);
    work_phase(&mut strategy, 0, 0);
    assert_eq!(accept_phase(&mut strategy, 2000, 0), 500);
}

#[test]
fn who_closes_nothing_lets_one_in_from_time_to_time() {
    let mut strategy = saturated();
    work_phase(&mut strategy, 0, 0);
    assert_eq!(accept_phase(&mut strategy, 10, STARVED_AFTER_NS - 1), 0);
    assert_eq!(accept_phase(&mut strategy, 10, STARVED_AFTER_NS), 1);
    assert_eq!(accept_phase(&mut strategy, 10, STARVED_AFTER_NS), 0);
}

/// One turn of a server, as chance has it.
#[derive(Clone, Debug)]
struct Turn {
    arrivals: u32,
    is_length_known: bool,
    worked: u32,
    closed: u32,
    took_ns: u64,
}

fn turn() -> impl Generator<Value = Turn> {
    (0..300_u32, any::<bool>(), 0..300_u32, 0..300_u32, 0..3_000_000_u64).prop_map(
        |(arrivals, is_length_known, worked, closed, took_ns)| Turn {
            arrivals,
            is_length_known,
            worked,
            closed,
            took_ns,
        },
    )
}

fn any_limit() -> impl Generator<Value = AcceptLimit> {
    prop_oneof![(1..200_u32).prop_map(at_most), Just(AcceptLimit::Inf), Just(AcceptLimit::Dynamic),]
}

/// What one turn came to.
struct Outcome {
    accepted: u32,
    was_idle: bool,
    accept_ns: u64,
}

/// A server without sockets, whose listen queue holds 128.
struct Model {
    strategy: Strategy,
    listen: u32,
    open: u32,
    now_ns: u64,
}

impl Model {
    fn new(limit: AcceptLimit) -> Self {
        Self { strategy: Strategy::new(limit), listen: 0, open: 0, now_ns: 0 }
    }

    fn take(&mut self, turn: &Turn) -> Outcome {
        self.listen = (self.listen + turn.arrivals).min(128);
        let was_idle = self.open == 0;
        if was_idle {
            self.strategy.idle();
        }
        let began_ns = self.now_ns;
        let mut accepted = 0;
        let view = |listen: u32, open: u32| Queues {
            listen: turn.is_length_known.then_some(listen),
            work: open,
        };
        self.strategy.began(Phase::Accept, view(self.listen, self.open), self.now_ns);
        while self.strategy.accept_now(view(self.listen, self.open), self.now_ns) > 0 {
            if self.listen == 0 {
                self.strategy.ran_dry();
                continue;
            }
            self.now_ns += 1000;
            self.strategy.accepted(self.now_ns);
            self.listen -= 1;
            self.open += 1;
            accepted += 1;
        }
        let accept_ns = self.now_ns - began_ns;
        self.strategy.began(Phase::Work, view(self.listen, self.open), self.now_ns);
        let mut closed = 0;
        for _ in 0..turn.worked.min(self.open) {
            self.strategy.worked();
            if closed < turn.closed && self.open > 0 {
                self.strategy.closed();
                self.open -= 1;
                closed += 1;
            }
        }
        self.now_ns += turn.took_ns;
        Outcome { accepted, was_idle, accept_ns }
    }
}

proptest! {
    /// C_avg ≤ accept-limit (Pariag, Equation 4.2), and the listen queue is drained if that allows.
    #[test]
    fn a_fixed_limit_accepts_what_there_is_up_to_itself(
        limit in 1..200_u32,
        turns in prop::collection::vec(turn(), 1..50),
    ) {
        let mut model = Model::new(at_most(limit));
        for turn in &turns {
            let waiting = (model.listen + turn.arrivals).min(128);
            prop_assert_eq!(model.take(turn).accepted, limit.min(waiting));
        }
    }

    /// "This would allow the server to maintain a roughly constant number of open connections." (6)
    #[test]
    fn dynamic_holds_no_more_than_saturate_it(turns in prop::collection::vec(turn(), 1..200)) {
        let mut model = Model::new(AcceptLimit::Dynamic);
        let mut most = SATURATED_AFTER;
        for turn in &turns {
            most += u32::from(model.strategy.is_starved(model.now_ns));
            if model.take(turn).was_idle {
                most = SATURATED_AFTER;
            }
            prop_assert!(model.open <= most, "{} of {most}", model.open);
        }
    }

    #[test]
    fn an_idle_server_accepts_at_least_one(
        limit in any_limit(),
        turns in prop::collection::vec(turn(), 1..100),
    ) {
        let mut model = Model::new(limit);
        for turn in &turns {
            let waiting = (model.listen + turn.arrivals).min(128);
            let outcome = model.take(turn);
            prop_assert!(!outcome.was_idle || waiting == 0 || outcome.accepted > 0);
        }
    }

    #[test]
    fn nobody_waits_for_ever(limit in any_limit(), took_ns in 1..50_000_000_u64) {
        // Its connections are busy and never close.
        let turn = Turn { arrivals: 128, is_length_known: true, worked: 1, closed: 0, took_ns };
        let mut model = Model::new(limit);
        let mut last_accept_ns = 0;
        for _ in 0..1000 {
            if model.take(&turn).accepted > 0 {
                last_accept_ns = model.now_ns;
            }
            prop_assert!(model.now_ns - last_accept_ns <= STARVED_AFTER_NS + took_ns);
        }
    }

    #[test]
    fn no_accept_phase_outlasts_its_bounds(
        limit in any_limit(),
        turns in prop::collection::vec(turn(), 1..50),
    ) {
        let mut model = Model::new(limit);
        let bounds = model.strategy.bounds;
        for turn in &turns {
            let outcome = model.take(turn);
            prop_assert!(outcome.accepted <= bounds.items);
            prop_assert!(outcome.accept_ns <= bounds.time_ns + 1000);
        }
    }
}
