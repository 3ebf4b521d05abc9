// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP, as packet exchanges.

use crate::attempt::{Attempt, Close, Person};
use crate::exchange::{Exchange, person, play};
use crate::os::Os;
use crate::segment::{Flags, Options, Segment};

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
fn syns_go_out_when_each_table_says_and_then_connect_gives_up() {
    for os in Os::all() {
        let patient = Person { timeout_ns: 300_000_000_000, ..person(os.name) };
        let mut script = "0 client > SYN seq 0\n".to_owned();
        for at_ms in os.syn_again_ms {
            script += &format!("{at_ms} client > SYN seq 0\n");
        }
        script += &format!("{}.999 end None\n", os.connect_gives_up_ms - 1);
        script += &format!("{} end TimedOutConnecting\n", os.connect_gives_up_ms);
        script += "250000 connection TimedOut";
        play(patient, &script);
    }
}

#[test]
fn impatience_ends_the_syns() {
    play(
        person("linux-2.4"),
        "0     client > SYN seq 0
         3000  client > SYN seq 0
         9000  client > SYN seq 0
         9999  end None
         10000 end TimedOutConnecting
         10000 connection Aborted
         60000 end TimedOutConnecting",
    );
}

#[test]
fn a_rst_on_syn_ends_it_at_once_except_for_windows() {
    for os in Os::all() {
        if os.on_refusal != crate::os::OnRefusal::Fail {
            continue;
        }
        play(
            person(os.name),
            "0    client > SYN seq 0
             10   server > RST ACK seq 0 ack 1
             10   end Refused
             9000 connection Refused",
        );
    }
}

#[test]
fn windows_sends_syn_again_every_half_second() {
    play(
        person("windows"),
        "0    client > SYN seq 0
         1    server > RST ACK seq 0 ack 1
         501  client > SYN seq 0
         502  server > RST ACK seq 0 ack 1
         1002 client > SYN seq 0
         1003 server > RST ACK seq 0 ack 1
         1503 client > SYN seq 0
         1504 server > RST ACK seq 0 ack 1
         2004 client > SYN seq 0
         2004 end None
         2005 server > RST ACK seq 0 ack 1
         2005 end Refused",
    );
}

#[test]
fn older_windows_sends_syn_again_at_once() {
    for (os, times) in [("windows-2000", 2), ("windows-nt", 3), ("win-emu", 3)] {
        let mut script = "0 client > SYN seq 0\n".to_owned();
        for at_ms in 1..=times {
            script +=
                &format!("{at_ms} server > RST ACK seq 0 ack 1\n{at_ms} client > SYN seq 0\n");
        }
        script += "8 end None\n8 server > RST ACK seq 0 ack 1\n8 end Refused";
        play(person(os), &script);
    }
}

#[test]
fn silence_after_a_refusal_is_met_as_after_a_retransmission_in_turn() {
    play(
        Person { timeout_ns: 60_000_000_000, ..person("windows") },
        "0     client > SYN seq 0
         1     server > RST ACK seq 0 ack 1
         501   client > SYN seq 0
         2501  client > SYN seq 0
         6501  client > SYN seq 0
         14501 client > SYN seq 0
         21000 end TimedOutConnecting",
    );
}

#[test]
fn a_second_rst_for_one_syn_changes_nothing() {
    play(
        person("windows"),
        "0   client > SYN seq 0
         1   server > RST ACK seq 0 ack 1
         2   server > RST ACK seq 0 ack 1
         501 client > SYN seq 0
         502 server > SYN ACK seq 0 ack 1
         502 client > ACK seq 1 ack 1
         502 client > PSH ACK seq 1 ack 1 len 100",
    );
}

#[test]
fn a_rst_that_acknowledges_something_else_is_ignored_while_connecting() {
    play(
        person("linux"),
        "0    client > SYN seq 0
         1    server > RST ACK seq 0 ack 2
         2    server > RST ACK seq 0 ack 0
         3    server > RST seq 0
         4    end None
         1000 client > SYN seq 0",
    );
}

#[test]
fn an_acknowledgement_of_something_else_is_reset_while_connecting() {
    play(
        person("linux"),
        "0    client > SYN seq 0
         1    server > SYN ACK seq 0 ack 7
         1    client > RST seq 7
         2    server > ACK seq 0 ack 1
         3    server > SYN seq 0
         1000 client > SYN seq 0",
    );
}

#[test]
fn a_lost_syn_ack_costs_a_syn() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.play(
        "0    client > SYN seq 0
         1000 client > SYN seq 0
         1010 server > SYN ACK seq 0 ack 1
         1010 client > ACK seq 1 ack 1
         1010 client > PSH ACK seq 1 ack 1 len 100",
    );
    assert_eq!(exchange.attempt.syns(), 2);
}

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
fn after_a_lost_syn_no_round_trip_is_known() {
    play(
        person("linux"),
        "0    client > SYN seq 0
         1000 client > SYN seq 0
         1010 server > SYN ACK seq 0 ack 1
         1010 client > ACK seq 1 ack 1
         1010 client > PSH ACK seq 1 ack 1 len 100
         4010 client > PSH ACK seq 1 ack 1 len 100",
    );
}

#[test]
fn a_repeated_syn_ack_is_answered() {
    // The ACK and the request were lost, and the server's timer was first.
    after_asking(
        person("linux"),
        "110 server > SYN ACK seq 0 ack 1
         110 client > ACK seq 101 ack 1
         220 client > PSH ACK seq 1 ack 1 len 100",
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

#[test]
fn a_syn_shows_the_systems_options() {
    for os in Os::all() {
        let exchange = Exchange::begin(person(os.name), 1);
        let syn = &exchange.wire.sent[0];
        assert_eq!(syn.window, os.syn_window);
        assert_eq!(syn.options.mss, Some(1460));
        assert_eq!(syn.options.window_scale, os.window_scale);
        assert_eq!(syn.options.sack_permitted, os.sack);
        assert_eq!(syn.options.timestamps.is_some(), os.timestamp_tick_us.is_some());
    }
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
