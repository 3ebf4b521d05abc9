// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests and replies, lost and found.

use super::{ASKED, after_asking};
use crate::attempt::Person;
use crate::exchange::{Exchange, person, play};

#[test]
fn acknowledgements_ride_on_requests_once_they_alternate() {
    // As a stock Linux 6.18 does: the first reply is acknowledged at once, the later ones by the
    // next request, or after 40 ms.
    let mut exchange = Exchange::begin(person("linux"), 3);
    exchange.play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 101 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > PSH ACK seq 101 ack 1001 len 100
         30 server > PSH ACK seq 1001 ack 201 data 0..1000
         30 client > PSH ACK seq 201 ack 2001 len 100
         40 server > ACK seq 2001 ack 301
         50 server > ACK seq 2001 ack 301 data 0..100
         90 client > ACK seq 301 ack 2101
         95 server > PSH ACK seq 2101 ack 301 data 100..1000
         95 client > ACK seq 301 ack 3001
         95 client > FIN ACK seq 301 ack 3001
         95 end Replied",
    );
}

#[test]
fn a_lost_request_is_sent_again_as_linux_does() {
    // Round trip 10 ms: the probe after 210 ms does not double the timeout, the others do.
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.server_options.sack_permitted = true;
    exchange.play(ASKED).play(
        "220  client > PSH ACK seq 1 ack 1 len 100
         430  client > PSH ACK seq 1 ack 1 len 100
         850  client > PSH ACK seq 1 ack 1 len 100
         1690 client > PSH ACK seq 1 ack 1 len 100
         1700 server > ACK seq 1 ack 101
         1701 server > PSH ACK seq 1 ack 101 data 0..1000
         1701 client > ACK seq 101 ack 1001
         1701 client > FIN ACK seq 101 ack 1001
         1701 end Replied",
    );
}

#[test]
fn without_sack_the_first_retransmission_doubles_the_timeout_too() {
    after_asking(
        person("linux"),
        "220  client > PSH ACK seq 1 ack 1 len 100
         640  client > PSH ACK seq 1 ack 1 len 100
         1480 client > PSH ACK seq 1 ack 1 len 100
         1500 end None",
    );
}

#[test]
fn what_comes_out_of_order_is_asked_for_again() {
    after_asking(
        person("linux"),
        "20 server > ACK seq 501 ack 101 data 500..1000
         20 client > ACK seq 101 ack 1
         21 server > ACK seq 1 ack 101 data 0..500
         21 client > ACK seq 101 ack 501
         22 server > ACK seq 1 ack 101 data 0..500
         22 client > ACK seq 101 ack 501
         23 server > FIN PSH ACK seq 401 ack 101 data 400..1000
         23 client > FIN ACK seq 101 ack 1002
         23 end Replied",
    );
}

#[test]
fn a_segment_that_acknowledges_what_was_never_sent_is_dropped() {
    after_asking(
        person("linux"),
        "20 server > PSH ACK seq 1 ack 102 data 0..1000
         21 end None
         220 client > PSH ACK seq 1 ack 1 len 100",
    );
}

#[test]
fn a_server_without_room_is_asked_for_it() {
    play(
        person("linux"),
        "0    client > SYN seq 0
         10   server > SYN ACK seq 0 ack 1 win 0
         10   client > ACK seq 1 ack 1
         220  client > ACK seq 0 ack 1
         640  client > ACK seq 0 ack 1
         650  server > ACK seq 1 ack 1 win 60
         650  client > ACK seq 1 ack 1 len 60
         660  server > ACK seq 1 ack 61 win 60
         660  client > PSH ACK seq 61 ack 1 len 40",
    );
}

#[test]
fn what_is_lost_on_its_way_into_new_room_is_sent_again_in_the_usual_time() {
    play(
        person("linux"),
        "0    client > SYN seq 0
         10   server > SYN ACK seq 0 ack 1 win 0
         10   client > ACK seq 1 ack 1
         220  client > ACK seq 0 ack 1
         640  client > ACK seq 0 ack 1
         650  server > ACK seq 1 ack 1 win 500
         650  client > PSH ACK seq 1 ack 1 len 100
         860  client > PSH ACK seq 1 ack 1 len 100",
    );
}

/// Windows gives up what it has sent six times in vain.
#[test]
fn a_server_that_says_that_it_has_no_room_is_asked_as_long_as_patience_lasts() {
    let patient = Person { timeout_ns: 60_000_000_000, ..person("windows") };
    let mut exchange = Exchange::begin(patient, 1);
    exchange.play(
        "0  client > SYN seq 0
         10 server > SYN ACK seq 0 ack 1 win 0
         10 client > ACK seq 1 ack 1",
    );
    for at_ms in [320, 940, 2180, 4660, 9620, 19_540] {
        exchange.play(&format!(
            "{at_ms} client > ACK seq 0 ack 1
             {at_ms} server > ACK seq 1 ack 1 win 0"
        ));
    }
    exchange.play("39380 client > ACK seq 0 ack 1\n39380 connection None");
}

#[test]
fn a_long_request_is_cut_at_the_servers_mss() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.server_options.mss = Some(88);
    exchange.play(
        "0    client > SYN seq 0
         10   server > SYN ACK seq 0 ack 1
         10   client > ACK seq 1 ack 1
         10   client > ACK seq 1 ack 1 len 88
         10   client > PSH ACK seq 89 ack 1 len 12
         220  client > ACK seq 1 ack 1 len 88
         230  server > ACK seq 1 ack 89
         230  client > PSH ACK seq 89 ack 1 len 12",
    );
}

#[test]
fn what_came_behind_a_gap_is_not_sent_again() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.server_options.mss = Some(88);
    exchange.play(
        "0    client > SYN seq 0
         10   server > SYN ACK seq 0 ack 1
         10   client > ACK seq 1 ack 1
         10   client > ACK seq 1 ack 1 len 88
         10   client > PSH ACK seq 89 ack 1 len 12
         220  client > ACK seq 1 ack 1 len 88
         230  server > ACK seq 1 ack 101
         9000 end None",
    );
}

#[test]
fn a_request_sent_twice_tells_nothing_about_the_round_trip() {
    // Karn's rule: the next timeout is still that of a round trip of 10 ms, 210 ms.
    let mut exchange = Exchange::begin(person("linux"), 2);
    exchange.play(ASKED).play(
        "220 client > PSH ACK seq 1 ack 1 len 100
         225 server > PSH ACK seq 1 ack 101 data 0..1000
         225 client > ACK seq 101 ack 1001
         225 client > PSH ACK seq 101 ack 1001 len 100
         435 client > PSH ACK seq 101 ack 1001 len 100",
    );
}

#[test]
fn the_servers_window_is_scaled_by_what_it_said() {
    let mut exchange = Exchange::begin(person("linux"), 2);
    exchange.server_options.window_scale = Some(3);
    exchange.play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 101 win 10 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > ACK seq 101 ack 1001 len 80",
    );
}
