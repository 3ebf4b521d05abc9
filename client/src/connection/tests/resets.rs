// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What RSTs do in each state after the SYN.

use super::{ASKED, after_asking};
use crate::exchange::{Exchange, person};

#[test]
fn a_rst_while_waiting_is_a_reset() {
    after_asking(person("linux"), "20 server > RST seq 1\n20 end Reset\n20 connection Reset");
    after_asking(person("windows"), "20 server > RST seq 1\n20 end Reset");
}

#[test]
fn a_rst_elsewhere_in_the_window_is_challenged_and_outside_it_ignored() {
    after_asking(
        person("linux"),
        "20 server > RST seq 50
         20 client > ACK seq 101 ack 1
         21 server > RST seq 0
         22 server > RST seq 100000
         22 end None
         23 server > RST seq 1
         23 end Reset",
    );
}

#[test]
fn a_rst_after_the_fin_ends_the_connection_quietly() {
    after_asking(
        person("linux"),
        "20 server > PSH ACK seq 1 ack 101 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > FIN ACK seq 101 ack 1001
         30 server > RST seq 1001
         30 end Replied
         30 connection Reset",
    );
}

#[test]
fn a_rst_while_only_the_servers_fin_is_missing() {
    after_asking(
        person("linux"),
        "20 server > PSH ACK seq 1 ack 101 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > FIN ACK seq 101 ack 1001
         30 server > ACK seq 1001 ack 102
         40 server > RST seq 1001
         40 connection Reset",
    );
}

#[test]
fn a_rst_after_the_servers_fin_is_taken_too() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.reply = b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec();
    exchange.play(ASKED).play(
        "30 server > FIN PSH ACK seq 1 ack 101 data 0..32
         30 client > FIN ACK seq 101 ack 34
         30 end Replied
         40 server > RST seq 34
         40 connection Reset",
    );
}
