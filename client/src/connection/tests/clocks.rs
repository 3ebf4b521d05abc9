// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timestamps and the scale of windows.

use super::ASKED;
use crate::exchange::{Exchange, person};
use crate::segment::{Flags, Options};

#[test]
fn after_a_lost_syn_the_clocks_tell_the_round_trip() {
    for (echoed_after_ms, again_ms) in [(1000, 1220), (1_000_000, 4010)] {
        let mut exchange = Exchange::begin(person("linux"), 1);
        let clock = exchange.wire.sent[0].options.timestamps.unwrap().value;
        exchange.server_clocks(700, clock.wrapping_add(echoed_after_ms));
        exchange.play(&format!(
            "0    client > SYN seq 0
             1000 client > SYN seq 0
             1010 server > SYN ACK seq 0 ack 1
             1010 client > ACK seq 1 ack 1
             1010 client > PSH ACK seq 1 ack 1 len 100
             {again_ms} client > PSH ACK seq 1 ack 1 len 100"
        ));
    }
}

#[test]
fn clocks_take_their_room_from_the_data() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.server_options.mss = Some(100);
    exchange.server_clocks(700, 0);
    exchange.play(
        "0    client > SYN seq 0
         10   server > SYN ACK seq 0 ack 1
         10   client > ACK seq 1 ack 1
         10   client > ACK seq 1 ack 1 len 88
         10   client > PSH ACK seq 89 ack 1 len 12",
    );
}

#[test]
fn a_clock_from_behind_a_gap_is_not_echoed() {
    // RFC 7323, section 4.3: the echo is of the last segment that was acknowledged in order.
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.server_clocks(700, 0);
    exchange.play(ASKED);
    exchange.server_clocks(900, 0);
    exchange.play_line("20 server > ACK seq 501 ack 101 data 500..1000");
    let duplicate = exchange.wire.sent.pop_front().unwrap();
    assert_eq!(duplicate.options.timestamps.unwrap().echo, 700);
}

#[test]
fn clocks_are_echoed_and_old_ones_refused() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    let syn = exchange.wire.sent[0].clone();
    let clock = syn.options.timestamps.unwrap();
    assert_eq!(clock.echo, 0);
    exchange.server_clocks(700, clock.value);
    exchange.play("0 client > SYN seq 0").pass_until(10_000_000);
    let echoed = |exchange: &mut Exchange, script: &str| {
        exchange.pass_until(10_000_000);
        for line in script.lines() {
            exchange.play_line(line);
        }
        exchange.wire.sent.drain(..).map(|sent| sent.options.timestamps).collect::<Vec<_>>()
    };
    let sent = echoed(&mut exchange, "10 server > SYN ACK seq 0 ack 1");
    let mine = clock.value.wrapping_add(10);
    for clocks in &sent {
        let clocks = clocks.expect("every segment carries them");
        assert_eq!((clocks.value, clocks.echo), (mine, 700));
    }
    assert_eq!(sent.len(), 2);
    // PAWS: a segment from before is answered and dropped.
    exchange.server_clocks(699, mine);
    let sent = echoed(&mut exchange, "10 server > PSH ACK seq 1 ack 101 data 0..1000");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].unwrap().echo, 700);
    assert_eq!(exchange.attempt.end(), None);
    // A RST needs no clock.
    exchange.server_clocks(701, mine);
    let sent = echoed(&mut exchange, "10 server > PSH ACK seq 1 ack 101 data 0..1000");
    assert!(sent.iter().all(|clocks| clocks.unwrap().echo == 701), "{sent:?}");
}

#[test]
fn clocks_and_scale_are_used_only_when_both_sides_want_them() {
    let window_after = |os: &str, options: Options| {
        let mut exchange = Exchange::begin(person(os), 1);
        exchange.server_options = options;
        exchange.play_line("10 server > SYN ACK seq 0 ack 1");
        let ack = exchange.wire.sent[1].clone();
        assert_eq!(ack.flags, Flags::ACK);
        (ack.window, ack.options.timestamps.is_some())
    };
    let scaled = Options { window_scale: Some(7), ..Options::default() };
    assert_eq!(window_after("linux", scaled), (64_512 >> 10, false));
    assert_eq!(window_after("linux", Options::default()), (64_512, false));
    assert_eq!(window_after("windows", Options::default()), (65_535, false));
    assert_eq!(window_after("solaris-2.7", scaled), (8760, false));
}
