// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who closes first after the last reply (Faber, section 4.2).

use super::{ASKED, closing};
use crate::attempt::{Close, End};
use crate::exchange::{Exchange, play};
use crate::segment::Flags;

/// As [`ASKED`], with the 19 bytes of `Connection: close` in the request.
const ASKED_TO_CLOSE: &str = "
    0    client > SYN seq 0
    10   server > SYN ACK seq 0 ack 1
    10   client > ACK seq 1 ack 1
    10   client > PSH ACK seq 1 ack 1 len 119";

/// A reply, and CLIENT_CLOSE: a method of 12 letters where GET has 3.
const SAID: &str = "
    20   server > PSH ACK seq 1 ack 101 data 0..1000
    20   client > ACK seq 101 ack 1001
    20   client > FIN PSH ACK seq 101 ack 1001 len 109
    20   end Replied";

fn leaving_it_to_the_server(script: &str) {
    play(closing("linux", Close::Server), &format!("{ASKED_TO_CLOSE}\n{script}"));
}

fn having_said_so() -> Exchange {
    let mut exchange = Exchange::begin(closing("linux", Close::ClientClose), 1);
    exchange.play(&format!("{ASKED}\n{SAID}"));
    exchange
}

#[test]
fn a_server_that_is_asked_to_close_does_so_first() {
    leaving_it_to_the_server(
        "20 server > PSH ACK seq 1 ack 120 data 0..1000
         20 client > ACK seq 120 ack 1001
         20 end Replied
         20 connection None
         30 server > FIN ACK seq 1001 ack 120
         30 client > FIN ACK seq 120 ack 1002
         40 server > ACK seq 1002 ack 121
         40 connection Closed { client_first: false }",
    );
}

#[test]
fn its_fin_may_come_with_the_reply() {
    leaving_it_to_the_server(
        "20 server > FIN PSH ACK seq 1 ack 120 data 0..1000
         20 client > FIN ACK seq 120 ack 1002
         20 end Replied
         30 server > ACK seq 1002 ack 121
         30 connection Closed { client_first: false }",
    );
}

#[test]
fn a_server_that_does_not_close_is_waited_for_as_long_as_patience_lasts() {
    leaving_it_to_the_server(
        "20    server > PSH ACK seq 1 ack 120 data 0..1000
         20    client > ACK seq 120 ack 1001
         20    end Replied
         9999  connection None
         10000 client > FIN ACK seq 120 ack 1001
         10010 server > FIN ACK seq 1001 ack 121
         10010 client > ACK seq 121 ack 1002
         10010 connection Closed { client_first: true }",
    );
}

#[test]
fn only_the_last_request_asks_the_server_to_close() {
    let mut exchange = Exchange::begin(closing("linux", Close::Server), 2);
    exchange.play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 101 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > PSH ACK seq 101 ack 1001 len 119",
    );
}

#[test]
fn a_client_that_says_so_closes_first() {
    having_said_so().play(
        "30 server > FIN ACK seq 1001 ack 211
         30 client > ACK seq 211 ack 1002
         30 connection Closed { client_first: true }",
    );
}

/// A server that does not know the request answers it; the client holds TIME-WAIT all the same.
#[test]
fn what_is_answered_is_read_and_forgotten() {
    let mut exchange = having_said_so();
    exchange.play_line("30 server > PSH ACK seq 1001 ack 211 data 0..500");
    exchange.play_line("31 server > PSH ACK seq 1501 ack 211 data 500..1000");
    exchange.play_line("32 server > FIN ACK seq 2001 ack 211");
    exchange.play_line("32 end Replied");
    exchange.play_line("32 connection Closed { client_first: true }");
    assert!(exchange.wire.sent.iter().all(|sent| sent.flags == Flags::ACK));
    assert_eq!(exchange.wire.sent.back().unwrap().payload, b"");
}

#[test]
fn a_rst_in_answer_changes_nothing_of_the_end() {
    having_said_so().play(
        "30    server > RST seq 1001
         30    connection Reset
         90000 end Replied",
    );
}

/// Its patience is for the reply, and then for the server's FIN.
#[test]
fn a_server_that_says_nothing_to_it_is_left() {
    having_said_so().play(
        "30    server > ACK seq 1001 ack 211
         69999 connection None
         70000 connection TimedOut
         90000 end Replied",
    );
}

#[test]
fn it_is_said_again_when_it_is_lost() {
    let mut exchange = having_said_so();
    exchange.pass_until(300_000_000);
    let again = exchange.wire.sent.pop_front().unwrap();
    assert_eq!(again.payload, exchange.person.requests.client_close());
    assert!(again.payload.starts_with(b"CLIENT_CLOSE / HTTP/1.1\r\nHost: hhh"));
}

/// The last request was not acknowledged with its reply: TCP has one thing under way at a time.
#[test]
fn it_waits_for_the_acknowledgement_of_the_last_request() {
    let mut exchange = Exchange::begin(closing("linux", Close::ClientClose), 1);
    exchange.play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 1 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 end Replied
         21 server > ACK seq 1001 ack 101
         21 client > FIN PSH ACK seq 101 ack 1001 len 109",
    );
}

/// Its patience ends before the server has acknowledged the last request: the client closes, and what
/// comes then finds it closed.
#[test]
fn what_was_not_said_in_time_is_not_said_behind_the_fin() {
    let mut exchange = Exchange::begin(closing("linux", Close::ClientClose), 1);
    exchange.play(ASKED).play_line("20 server > PSH ACK seq 1 ack 1 data 0..1000");
    exchange.pass_until(10_000_000_000);
    exchange.wire.sent.clear();
    exchange.play(
        "10010 server > ACK seq 1001 ack 101
         10010 client > FIN ACK seq 101 ack 1001
         10020 server > FIN ACK seq 1001 ack 102
         10020 client > ACK seq 102 ack 1002
         10020 end Replied
         10020 connection Closed { client_first: true }",
    );
}

#[test]
fn who_gives_up_says_nothing() {
    for close in [Close::Server, Close::ClientClose] {
        let asked = if close == Close::Server { ASKED_TO_CLOSE } else { ASKED };
        let mut exchange = Exchange::begin(closing("linux", close), 1);
        exchange.play(asked).pass_until(9_000_000_000);
        exchange.wire.sent.clear();
        let now_ns = exchange.wire.now_ns;
        let Exchange { attempt, person, wire, .. } = &mut exchange;
        assert_eq!(attempt.give_up(now_ns, person, wire), Some(End::TimedOutWaiting));
        // The request is still under way, and the FIN behind it: nothing new goes out.
        assert!(exchange.wire.sent.iter().all(|sent| sent.payload.is_empty()));
    }
}
