// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT: TW-Negotiate and close_swap at the client (Faber, sections 3 and 4.1).

use tidegate_policy::raw::tg_tw_rules;
use tidegate_policy::time_wait::{End, negotiate};

use super::ASKED;
use crate::attempt::Person;
use crate::connection::{Ended, Wait};
use crate::exchange::{Exchange, person};
use crate::segment::{Flags, Options};

const NEGOTIATED: [Option<End>; 3] = [None, Some(End::Client), Some(End::Server)];

const CLIENT_FIRST: &str = "
    25 server > PSH ACK seq 1 ack 101 data 0..1000
    25 client > ACK seq 101 ack 1001
    25 client > FIN ACK seq 101 ack 1001
    35 server > FIN ACK seq 1001 ack 102
    35 client > ACK seq 102 ack 1002";
const BOTH: &str = "
    25 server > PSH ACK seq 1 ack 101 data 0..1000
    25 client > ACK seq 101 ack 1001
    25 client > FIN ACK seq 101 ack 1001
    26 server > FIN ACK seq 1001 ack 101
    26 client > ACK seq 102 ack 1002
    35 server > ACK seq 1002 ack 102";
const SERVER_FIRST: &str = "
    20 server > PSH ACK seq 1 ack 101 data 0..32
    20 client > ACK seq 101 ack 33
    30 server > FIN ACK seq 33 ack 101
    30 client > FIN ACK seq 101 ack 34
    40 server > ACK seq 34 ack 102";

fn who_wants(rules: tg_tw_rules) -> Person {
    Person { time_wait: rules, ..person("linux") }
}

/// A request made to a server that names this end.
fn asked(rules: tg_tw_rules, answered: Option<End>) -> Exchange {
    let mut exchange = Exchange::begin(who_wants(rules), 1);
    answer(&mut exchange, answered);
    exchange.play(ASKED);
    exchange
}

fn answer(exchange: &mut Exchange, named: Option<End>) {
    exchange.server_options = Options { time_wait: named, ..exchange.server_options };
}

fn wait_after(rules: tg_tw_rules, answered: Option<End>, script: &str) -> Wait {
    let mut exchange = asked(rules, answered);
    if script.contains("0..32") {
        exchange.reply = b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec();
    }
    exchange.play(script);
    let wait = exchange.attempt.wait();
    assert_eq!(exchange.wire.held.len(), usize::from(wait == Wait::Pair));
    wait
}

/// "The TIME-WAIT holder will enter TIME-WAIT and the other endpoint will enter CLOSED, regardless
/// of which end closed actively and which (if either) passively" (section 3).
#[test]
fn the_holder_holds_whoever_closes_first() {
    let of = |named| {
        [CLIENT_FIRST, BOTH, SERVER_FIRST].map(|end| wait_after(negotiate(named), named, end))
    };
    assert_eq!(of(None), [Wait::Own, Wait::Own, Wait::Nothing], "today's TCP");
    assert_eq!(of(Some(End::Client)), [Wait::Own, Wait::Own, Wait::Pair]);
    assert_eq!(of(Some(End::Server)), [Wait::Nothing; 3]);
}

/// "The details of active and simultaneous closing are unchanged" (section 4.1).
#[test]
fn close_swap_takes_the_wait_of_a_server_that_closed_first() {
    let swaps = tg_tw_rules { close_swap: 1, ..negotiate(None) };
    assert_eq!(wait_after(swaps, None, CLIENT_FIRST), Wait::Own);
    assert_eq!(wait_after(swaps, None, BOTH), Wait::Own);
    let with_rst = format!("{SERVER_FIRST}\n40 client > RST ACK seq 102 ack 34");
    assert_eq!(wait_after(swaps, None, &with_rst), Wait::Pair);
    let agreed = tg_tw_rules { close_swap: 1, ..negotiate(Some(End::Client)) };
    assert_eq!(wait_after(agreed, Some(End::Client), SERVER_FIRST), Wait::Pair, "without a RST");
}

/// Without room nothing is swapped, and holding is not offered.
#[test]
fn who_has_no_room_leaves_it_as_it_is() {
    let swaps = tg_tw_rules { close_swap: 1, ..negotiate(None) };
    let mut exchange = Exchange::begin_without_room(who_wants(swaps));
    exchange.reply = b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec();
    exchange.play(ASKED).play(SERVER_FIRST);
    assert_eq!(exchange.attempt.wait(), Wait::Nothing);
    for (holder, offered) in [(End::Client, None), (End::Server, Some(End::Server))] {
        let exchange = Exchange::begin_without_room(who_wants(negotiate(Some(holder))));
        assert_eq!(exchange.wire.sent[0].options.time_wait, offered);
    }
}

/// Steps 1 and 3: the client's value is in its SYN, and the agreed one in what it sends until the
/// server is heard again.
#[test]
fn the_option_is_in_every_segment_until_the_server_has_seen_it() {
    for named in NEGOTIATED {
        let mut exchange = Exchange::begin(who_wants(negotiate(named)), 1);
        answer(&mut exchange, named);
        let mut names = Vec::new();
        exchange.pass_until(500_000_000);
        assert_eq!(exchange.wire.sent.len(), 1);
        exchange.play_line("500 server > SYN ACK seq 0 ack 1");
        exchange.play_line("510 server > ACK seq 1 ack 101");
        exchange.play_line("520 server > PSH ACK seq 1 ack 101 data 0..1000");
        for sent in &exchange.wire.sent {
            names.push((sent.flags, sent.options.time_wait));
        }
        let expected = [
            (Flags::SYN, named),
            (Flags::ACK, named),
            (Flags::PSH | Flags::ACK, named),
            (Flags::ACK, None),
            (Flags::FIN | Flags::ACK, None),
        ];
        assert_eq!(names, expected);
    }
}

/// Step 3: another choice than its own is taken, or refused "as though it failed to synchronize".
#[test]
fn another_choice_is_taken_or_refused() {
    let wants = negotiate(Some(End::Server));
    assert_eq!(wait_after(wants, Some(End::Client), SERVER_FIRST), Wait::Pair);
    assert_eq!(wait_after(wants, None, CLIENT_FIRST), Wait::Own, "it does not speak");
    let insists = tg_tw_rules { insist: 1, ..wants };
    assert_eq!(wait_after(insists, None, CLIENT_FIRST), Wait::Own, "which is no refusal");
    let mut exchange = Exchange::begin(who_wants(insists), 1);
    answer(&mut exchange, Some(End::Client));
    exchange.play(
        "0  client > SYN seq 0
         10 server > SYN ACK seq 0 ack 1
         10 client > RST seq 1
         10 end Refused
         10 connection Refused",
    );
}

/// In LAST-ACK the server may be CLOSED, with nothing left of the connection but in our table.
#[test]
fn a_rst_in_last_ack_does_not_end_what_was_agreed() {
    let mut exchange = asked(negotiate(Some(End::Client)), Some(End::Client));
    exchange.reply = b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec();
    exchange.play(
        "20 server > PSH ACK seq 1 ack 101 data 0..32
         20 client > ACK seq 101 ack 33
         30 server > FIN ACK seq 33 ack 101
         30 client > FIN ACK seq 101 ack 34
         40 server > RST seq 34",
    );
    assert_eq!(exchange.attempt.connection_ended(), Some(Ended::Reset));
    assert_eq!(exchange.attempt.wait(), Wait::Pair);
    let held = exchange.wire.held[0];
    assert_eq!(held.sent.wrapping_sub(exchange.client_first), 102, "behind its FIN");
    assert!(!held.swapped && held.clocks.is_none());
}
