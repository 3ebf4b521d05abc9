// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How connections end in peace.

use super::{ASKED, after_asking, closing};
use crate::attempt::{Close, Person};
use crate::exchange::{Exchange, person, play};
use crate::os::Os;
use crate::segment::Flags;

#[test]
fn one_request_and_a_polite_end() {
    after_asking(
        person("linux"),
        "20 server > ACK seq 1 ack 101
         25 server > PSH ACK seq 1 ack 101 data 0..1000
         25 client > ACK seq 101 ack 1001
         25 client > FIN ACK seq 101 ack 1001
         25 end Replied
         25 connection None
         35 server > FIN ACK seq 1001 ack 102
         35 client > ACK seq 102 ack 1002
         35 connection Closed { client_first: true }
         90000 end Replied",
    );
}

#[test]
fn the_end_may_come_in_two_segments() {
    after_asking(
        person("linux"),
        "25 server > PSH ACK seq 1 ack 101 data 0..1000
         25 client > ACK seq 101 ack 1001
         25 client > FIN ACK seq 101 ack 1001
         35 server > ACK seq 1001 ack 102
         40 connection None
         45 server > FIN ACK seq 1001 ack 102
         45 client > ACK seq 102 ack 1002
         45 connection Closed { client_first: true }",
    );
}

#[test]
fn both_may_close_at_once() {
    after_asking(
        person("linux"),
        "25 server > PSH ACK seq 1 ack 101 data 0..1000
         25 client > ACK seq 101 ack 1001
         25 client > FIN ACK seq 101 ack 1001
         26 server > FIN ACK seq 1001 ack 101
         26 client > ACK seq 102 ack 1002
         26 connection None
         35 server > ACK seq 1002 ack 102
         35 connection Closed { client_first: true }",
    );
}

#[test]
fn a_server_that_closes_is_acknowledged_by_the_clients_fin() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.reply = b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec();
    exchange.play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 101 data 0..32
         20 client > ACK seq 101 ack 33
         30 server > FIN ACK seq 33 ack 101
         30 client > FIN ACK seq 101 ack 34
         30 end Replied
         40 server > ACK seq 34 ack 102
         40 connection Closed { client_first: false }",
    );
}

#[test]
fn a_lost_fin_is_sent_again() {
    after_asking(
        person("linux"),
        "20  server > PSH ACK seq 1 ack 101 data 0..1000
         20  client > ACK seq 101 ack 1001
         20  client > FIN ACK seq 101 ack 1001
         230 client > FIN ACK seq 101 ack 1001
         240 server > FIN ACK seq 1001 ack 102
         240 client > ACK seq 102 ack 1002
         240 connection Closed { client_first: true }",
    );
}

#[test]
fn a_server_that_vanished_is_given_up() {
    let mut exchange = Exchange::begin(person("windows"), 1);
    exchange.play(ASKED).pass_until(200_000_000_000);
    let again = exchange.wire.sent.len();
    // Five times, and once more for the FIN that joins them when patience ends.
    assert!((5..=7).contains(&again), "{again}");
    exchange.wire.sent.clear();
    exchange.play("200000 end TimedOutWaiting\n200000 connection TimedOut");
}

#[test]
fn a_server_that_never_closes_is_forgotten() {
    after_asking(
        person("linux"),
        "20 server > PSH ACK seq 1 ack 101 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > FIN ACK seq 101 ack 1001
         30 server > ACK seq 1001 ack 102
         60029 connection None
         60030 connection TimedOut",
    );
}

#[test]
fn a_fin_waits_behind_a_request_that_is_lost() {
    // As a stock Linux does: nothing at close(), and the FIN after the request came through.
    let person = Person { timeout_ns: 500_000_000, ..person("linux") };
    let mut exchange = Exchange::begin(person, 1);
    exchange.server_options.sack_permitted = true;
    exchange.play(ASKED).play(
        "220  client > PSH ACK seq 1 ack 1 len 100
         430  client > PSH ACK seq 1 ack 1 len 100
         500  end TimedOutWaiting
         850  client > PSH ACK seq 1 ack 1 len 100
         860  server > ACK seq 1 ack 101
         860  client > FIN ACK seq 101 ack 1
         870  server > FIN ACK seq 1 ack 102
         870  client > ACK seq 102 ack 2
         870  connection Closed { client_first: true }",
    );
}

#[test]
fn a_fin_leaves_at_once_before_linux_6_10_and_with_what_is_sent_again() {
    // Shukla, figure 4.2.
    for os in ["linux-2.4", "win-emu", "jamjoom-linux-2.4", "linux-pre-6.5"] {
        after_asking(
            Person { timeout_ns: 1_000_000_000, ..person(os) },
            "220  client > PSH ACK seq 1 ack 1 len 100
             640  client > PSH ACK seq 1 ack 1 len 100
             1000 end TimedOutWaiting
             1000 client > FIN ACK seq 101 ack 1
             1480 client > FIN PSH ACK seq 1 ack 1 len 100
             3160 client > FIN PSH ACK seq 1 ack 1 len 100
             4000 server > SYN ACK seq 0 ack 1
             4000 client > ACK seq 102 ack 1
             6520 client > FIN PSH ACK seq 1 ack 1 len 100
             6530 server > PSH ACK seq 1 ack 102 data 0..1000
             6530 client > RST seq 102
             6530 connection Aborted",
        );
    }
}

#[test]
fn a_fin_waits_behind_what_is_lost_on_linux_of_today_alone() {
    for os in Os::all() {
        let mut exchange = Exchange::begin(person(os.name), 1);
        exchange.play(ASKED).pass_until(10_000_000_000);
        let sent = exchange.wire.sent.back().unwrap();
        assert_eq!(sent.flags.has(Flags::FIN), os.name != "linux", "{}", os.name);
    }
}

#[test]
fn a_request_that_is_lost_with_its_fin_is_sent_again_with_it() {
    // As a stock Linux 6.18 does.
    after_asking(
        closing("linux", Close::HalfClose),
        "10  client > FIN ACK seq 101 ack 1
         220 client > FIN PSH ACK seq 1 ack 1 len 100
         640 client > FIN PSH ACK seq 1 ack 1 len 100
         650 server > ACK seq 1 ack 102
         700 connection None",
    );
}

#[test]
fn a_client_that_gave_up_answers_the_late_reply_with_a_rst() {
    // Shukla, figure 4.11.
    after_asking(
        person("linux-2.4"),
        "20    server > ACK seq 1 ack 101
         10000 end TimedOutWaiting
         10000 client > FIN ACK seq 101 ack 1
         10040 server > ACK seq 1 ack 102
         25000 server > PSH ACK seq 1 ack 102 data 0..1000
         25000 client > RST seq 102
         25000 connection Aborted",
    );
}

#[test]
fn closing_with_a_rst_after_a_reply() {
    after_asking(
        closing("linux", Close::Reset),
        "20 server > PSH ACK seq 1 ack 101 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > RST ACK seq 101 ack 1001
         20 end Replied
         20 connection Aborted",
    );
}

#[test]
fn closing_with_a_rst_when_patience_ends() {
    after_asking(
        closing("linux", Close::Reset),
        "20    server > ACK seq 1 ack 101
         10000 client > RST ACK seq 101 ack 1
         10000 end TimedOutWaiting",
    );
    play(
        Person { timeout_ns: 500_000_000, ..closing("linux", Close::Reset) },
        "0   client > SYN seq 0
         500 end TimedOutConnecting",
    );
}

#[test]
fn half_close_sends_the_fin_after_the_request_and_reads_on() {
    after_asking(
        closing("linux", Close::HalfClose),
        "10 client > FIN ACK seq 101 ack 1
         20 server > PSH ACK seq 1 ack 102 data 0..500
         20 client > ACK seq 102 ack 501
         25 server > PSH ACK seq 501 ack 102 data 500..1000
         25 client > ACK seq 102 ack 1001
         25 end Replied
         26 server > FIN ACK seq 1001 ack 102
         26 client > ACK seq 102 ack 1002
         26 connection Closed { client_first: true }",
    );
}

#[test]
fn what_was_left_unread_resets() {
    let longer = |os| {
        let mut exchange = Exchange::begin(person(os), 1);
        exchange.reply.extend_from_slice(b"more");
        exchange
    };
    longer("linux").play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 101 data 0..1004
         20 client > ACK seq 101 ack 1005
         20 client > RST ACK seq 101 ack 1005
         20 end Replied",
    );
}
