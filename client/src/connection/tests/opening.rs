// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How connections come to be, or do not.

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::after_asking;
use crate::attempt::{Attempt, Person};
use crate::exchange::{Exchange, Wire, person, play};
use crate::os::Os;
use crate::segment::{Flags, Segment};

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

/// RFC 9293, section 3.4.1; with time stamps it is these that tell (RFC 6191).
#[test]
fn without_time_stamps_a_pair_that_is_used_again_has_a_later_number() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut first_at = |os: &str, pair_first, now_ns| {
        let mut wire = Wire { pair_first, ..Wire::default() };
        let _ = Attempt::start(now_ns, &person(os), 0, 1, &mut rng, &mut wire);
        wire.sent[0].seq
    };
    for os in Os::all().iter().filter(|os| os.timestamp_tick_us.is_none()) {
        // It wraps around after five hours.
        let times = [0, 1_000_000, 60_000_000_000, 5_400_000_000_000];
        let [first, others @ ..] = times.map(|ns| first_at(os.name, Some(u32::MAX - 1000), ns));
        assert_eq!((first, others), (u32::MAX - 1000, [u32::MAX - 750, 14_998_999, 1_349_998_999]));
        assert_ne!(first_at(os.name, None, 0), first_at(os.name, None, 0), "drawn");
    }
    assert_ne!(first_at("linux", Some(7), 0), 7);
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

/// A notice is a payload of eight bytes, and an option that no system knows (docs/notices.md): to
/// every one of them a RST is a RST.
#[test]
fn what_a_rst_says_changes_nothing_for_any_system() {
    for os in Os::all() {
        let meets = |payload: &'static [u8]| {
            let mut exchange = Exchange::begin(person(os.name), 1);
            // Some send their SYN again, and are refused again.
            for again in 1..=8 {
                let ack = exchange.client_first.wrapping_add(1);
                let flags = Flags::RST | Flags::ACK;
                exchange.hand(&Segment { flags, ack, payload, ..Segment::default() });
                exchange.pass_until(again * 600_000_000);
            }
            let ended = format!("{:?}", exchange.attempt.connection_ended());
            (exchange.wire.sent, ended)
        };
        let (sent, ended) = meets(b"");
        assert!(ended.contains("Refused"), "{}: {ended}", os.name);
        assert_eq!(meets(b"\x33\xaa\0\x0a\0\0\0\0"), (sent, ended), "{}", os.name);
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
