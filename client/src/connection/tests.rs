// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP, as packet exchanges.

mod agreement;
mod clocks;
mod data;
mod ends;
mod opening;
mod parting;
mod resets;

use crate::attempt::{Attempt, Close, Person};
use crate::exchange::{Exchange, person, play};
use crate::segment::{Flags, Segment};

/// A handshake and a request, 10 ms away from the server.
const ASKED: &str = "
    0    client > SYN seq 0
    10   server > SYN ACK seq 0 ack 1
    10   client > ACK seq 1 ack 1
    10   client > PSH ACK seq 1 ack 1 len 100";

fn closing(os: &str, close: Close) -> Person {
    Person { close, ..person(os) }
}

fn after_asking(person: Person, script: &str) {
    play(person, &format!("{ASKED}\n{script}"));
}

#[test]
fn the_state_of_an_attempt_is_small() {
    assert!(size_of::<Attempt>() <= 192, "{}", size_of::<Attempt>());
}

#[test]
fn nothing_happens_before_a_timer_is_due() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.play(ASKED);
    let next_ns = exchange.attempt.next_timer_ns().unwrap();
    for early_ns in [0, 1, next_ns - 1] {
        let end = exchange.attempt.timer(early_ns, &exchange.person, &mut exchange.wire);
        assert_eq!((end, exchange.wire.sent.len()), (None, 0));
    }
    assert_eq!(exchange.attempt.next_timer_ns(), Some(next_ns));
}

#[test]
fn a_finished_connection_is_deaf() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.play("0 client > SYN seq 0\n1 server > RST ACK seq 0 ack 1\n1 end Refused");
    exchange.hand(&Segment { flags: Flags::SYN | Flags::ACK, ..Segment::default() });
    exchange.play("9000 end Refused");
    assert!(exchange.attempt.is_finished());
    assert_eq!(exchange.attempt.next_timer_ns(), None);
}
