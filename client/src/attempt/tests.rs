// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attempts: replies however they are cut, several requests, and whatever the network may bring.

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::exchange::{Exchange, Sent, Wire, person, reply};
use crate::http::Request;
use crate::http::Requests;
use crate::os::Os;
use crate::segment::{Flags, Options, Timestamps};

const ASKED: &str = "
    0    client > SYN seq 0
    10   server > SYN ACK seq 0 ack 1
    10   client > ACK seq 1 ack 1
    10   client > PSH ACK seq 1 ack 1 len 100";

/// The end of an exchange whose reply comes in these pieces, with a FIN at the end if that is
/// wanted.
fn end_of(reply: &[u8], cuts: &[usize], fin: bool) -> Option<End> {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.reply = reply.to_vec();
    exchange.play(ASKED);
    let mut from = 0;
    for to in cuts.iter().copied().chain([reply.len()]) {
        let flags = if fin && to == reply.len() { "FIN PSH ACK" } else { "PSH ACK" };
        exchange
            .play_line(&format!("20 server > {flags} seq {} ack 101 data {from}..{to}", from + 1));
        from = to;
    }
    exchange.attempt.end()
}

#[test]
fn a_reply_split_at_any_byte_ends_the_same() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let replies: [(&[u8], bool, End); 6] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, End::Replied),
        (chunked, false, End::Replied),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", false, End::HttpError),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", true, End::Replied),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", true, End::ClosedEarly),
        (b"220 mail.example ESMTP\r\n", false, End::Nonsense),
    ];
    for (reply, fin, end) in replies {
        assert_eq!(end_of(reply, &[], fin), Some(end));
        for cut in 1..reply.len() {
            assert_eq!(end_of(reply, &[cut], fin), Some(end), "{cut}");
        }
        let everywhere: Vec<usize> = (1..reply.len()).collect();
        assert_eq!(end_of(reply, &everywhere, fin), Some(end));
    }
}

#[test]
fn several_requests_take_several_replies() {
    let mut exchange = Exchange::begin(person("linux"), 2);
    exchange.play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 101 data 0..1000
         20 client > ACK seq 101 ack 1001
         20 client > PSH ACK seq 101 ack 1001 len 100
         20 end None
         30 server > PSH ACK seq 1001 ack 201 data 0..1000
         30 client > FIN ACK seq 201 ack 2001
         30 end Replied",
    );
}

#[test]
fn what_is_withdrawn_is_closed_as_the_person_closes() {
    let answered = format!("{ASKED}\n20 server > ACK seq 1 ack 101");
    for (before, sent) in
        [("0 client > SYN seq 0", ""), (&answered, "50 client > FIN ACK seq 101 ack 1")]
    {
        let mut exchange = Exchange::begin(person("linux"), 1);
        exchange.play(before).pass_until(50_000_000);
        let Exchange { attempt, person, wire, .. } = &mut exchange;
        assert_eq!(attempt.withdraw(wire.now_ns, person, wire), Some(End::Withdrawn));
        assert_eq!(attempt.withdraw(wire.now_ns, person, wire), None, "once");
        assert_eq!(attempt.give_up(wire.now_ns, person, wire), None);
        exchange.play(sent);
        assert_eq!(exchange.attempt.end(), Some(End::Withdrawn));
    }
}

#[test]
fn each_request_is_for_its_own_thing() {
    let requests = ["/a", "/b", "/c"].map(|path| Request::get("h", path));
    let mut person = person("linux");
    person.requests = Requests::of("h", requests.to_vec()).unwrap();
    let mut wire = Wire::default();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut attempt = Attempt::start(0, &person, 2, 2, &mut rng, &mut wire);
    let mut server = Server { next: 500, got: wire.sent[0].seq.wrapping_add(1) };
    for _ in 0..3 {
        server.answer(&mut attempt, &person, &mut wire);
    }
    let asked: Vec<String> = wire
        .sent
        .iter()
        .filter(|sent| !sent.payload.is_empty())
        .map(|sent| String::from_utf8_lossy(&sent.payload[..6]).into_owned())
        .collect();
    assert_eq!(asked, ["GET /c", "GET /a"]);
    assert_eq!(attempt.end(), Some(End::Replied));
}

/// A server that acknowledges everything and answers each request.
struct Server {
    next: u32,
    got: u32,
}

impl Server {
    fn answer(&mut self, attempt: &mut Attempt, person: &Person, wire: &mut Wire) {
        let payload = reply();
        let (flags, payload) = if attempt.is_connected() {
            self.got = wire
                .sent
                .back()
                .map_or(self.got, |sent| sent.seq.wrapping_add(sent.payload.len() as u32));
            (Flags::ACK | Flags::PSH, &payload[..])
        } else {
            (Flags::SYN | Flags::ACK, &b""[..])
        };
        let segment = Segment {
            flags,
            seq: self.next,
            ack: self.got,
            window: 5000,
            options: Options { mss: Some(1460), ..Options::default() },
            payload,
        };
        self.next = self.next.wrapping_add(segment.sequence_length());
        attempt.receive(1000, person, &segment, wire);
    }
}

#[test]
fn a_server_that_will_not_take_the_next_request_closed_early() {
    let mut exchange = Exchange::begin(person("linux"), 2);
    exchange.reply = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec();
    let length = exchange.reply.len();
    exchange.play(ASKED).play(&format!(
        "20 server > PSH ACK seq 1 ack 101 data 0..{length}
         20 client > ACK seq 101 ack {0}
         20 client > FIN ACK seq 101 ack {0}
         20 end ClosedEarly",
        length + 1
    ));
}

#[test]
fn a_reply_to_nothing_is_nonsense() {
    let mut exchange = Exchange::begin(person("linux"), 2);
    exchange.reply.extend_from_within(..);
    exchange.play(ASKED).play(
        "20 server > ACK seq 1 ack 101 data 0..1400
         20 client > ACK seq 101 ack 1401
         20 client > RST ACK seq 101 ack 1401
         20 end Nonsense",
    );
}

#[test]
fn the_next_request_waits_for_the_acknowledgement_of_the_last() {
    let mut exchange = Exchange::begin(person("linux"), 2);
    exchange.play(ASKED).play(
        "20 server > PSH ACK seq 1 ack 1 data 0..1000
         20 client > ACK seq 101 ack 1001
         21 server > ACK seq 1001 ack 101
         21 client > PSH ACK seq 101 ack 1001 len 100",
    );
}

#[test]
fn a_person_may_leave_at_any_time() {
    let mut exchange = Exchange::begin(person("linux"), 1);
    exchange.play(ASKED);
    let now_ns = exchange.wire.now_ns;
    let Exchange { attempt, person, wire, .. } = &mut exchange;
    assert_eq!(attempt.give_up(now_ns, person, wire), Some(End::TimedOutWaiting));
    assert_eq!(attempt.give_up(now_ns, person, wire), None);
    exchange.play("10 client > FIN ACK seq 101 ack 1");
}

/// What a hostile or broken network may do next.
#[derive(Clone, Debug)]
enum Event {
    /// A segment, with numbers near the right ones.
    Segment {
        flags: u8,
        seq: i32,
        ack: i32,
        window: u16,
        from: usize,
        length: usize,
        clock: Option<i32>,
    },
    /// So many ms pass.
    Wait(u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let near = || prop_oneof![4 => Just(0_i32), 2 => -3..1200_i32, 1 => any::<i32>()];
    let flags = prop_oneof![
        3 => Just(0x12_u8),
        6 => Just(0x10_u8),
        4 => Just(0x18_u8),
        2 => Just(0x11_u8),
        1 => Just(0x14_u8),
        1 => any::<u8>(),
    ];
    let segment = (
        flags,
        near(),
        near(),
        prop_oneof![Just(0_u16), Just(500), any::<u16>()],
        prop_oneof![3 => Just(0_usize), 1 => 0..1000_usize],
        prop_oneof![2 => Just(0_usize), 3 => Just(1000), 1 => 0..1400_usize],
        proptest::option::of(-2..3_i32),
    );
    let event = prop_oneof![
        5 => segment.prop_map(|(flags, seq, ack, window, from, length, clock)| {
            Event::Segment { flags, seq, ack, window, from, length, clock }
        }),
        1 => (1..3000_u32).prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 0..40)
}

fn people() -> impl Strategy<Value = (Person, u16)> {
    let close = proptest::sample::select(Close::ALL.to_vec());
    (0..Os::all().len(), close, 1..4_u16)
        .prop_map(|(os, close, count)| (Person { close, ..person(Os::all()[os].name) }, count))
}

/// Plays the events and then lets time pass until nothing more is due. Says all that was sent, all
/// the ends, and whether the connection has ended.
fn survive(
    person: &Person,
    count: u16,
    events: &[Event],
    seed: u64,
) -> (Vec<Sent>, Vec<End>, bool) {
    let mut wire = Wire { now_ns: 1, ..Wire::default() };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut attempt = Attempt::start(1, person, 0, count, &mut rng, &mut wire);
    let first = wire.sent[0].seq;
    let replies = [reply(), reply(), reply()].concat();
    let mut ends = Vec::new();
    let mut expected = 7_000_u32;
    let mut sent_before = wire.sent.len();
    for event in events {
        match *event {
            Event::Wait(ms) => {
                let until_ns = wire.now_ns + u64::from(ms) * 1_000_000;
                while let Some(at_ns) = attempt.next_timer_ns().filter(|at_ns| *at_ns <= until_ns) {
                    wire.now_ns = at_ns.max(wire.now_ns);
                    ends.extend(attempt.timer(wire.now_ns, person, &mut wire));
                    assert!(attempt.next_timer_ns().is_none_or(|next_ns| next_ns > at_ns));
                }
                wire.now_ns = until_ns;
            }
            Event::Segment { flags, seq, ack, window, from, length, clock } => {
                // Near what the client would take now.
                let sent = wire.sent.back().expect("a SYN at least");
                let length_sent = sent.payload.len() as u32 + u32::from(sent.flags.has(Flags::FIN));
                let acked = sent.seq.max(first).wrapping_add(length_sent);
                let is_syn = flags & Flags::SYN.0 != 0;
                let ack_base = if is_syn { first.wrapping_add(1) } else { acked };
                if sent.flags.has(Flags::ACK) {
                    expected = sent.ack;
                }
                let clocks = clock.map(|clock| Timestamps {
                    value: 1000_u32.wrapping_add_signed(clock),
                    echo: sent.options.timestamps.map_or(0, |clocks| clocks.value),
                });
                let segment = Segment {
                    flags: Flags(flags),
                    seq: expected.wrapping_add_signed(seq),
                    ack: ack_base.wrapping_add_signed(ack),
                    window,
                    options: Options {
                        mss: Some(window),
                        window_scale: is_syn.then_some(window as u8),
                        sack_permitted: is_syn,
                        timestamps: clocks,
                        time_wait: None,
                    },
                    payload: if is_syn { b"" } else { &replies[from..from + length] },
                };
                ends.extend(attempt.receive(wire.now_ns, person, &segment, &mut wire));
            }
        }
        let sent_now = wire.sent.len();
        // A segment can ask for an acknowledgement, some data and an end, no more.
        let bound = if matches!(event, Event::Wait(_)) { 40 } else { 14 };
        assert!(sent_now - sent_before <= bound, "{} segments at once", sent_now - sent_before);
        sent_before = sent_now;
    }
    let mut firings = 0;
    while let Some(at_ns) = attempt.next_timer_ns() {
        wire.now_ns = at_ns.max(wire.now_ns);
        ends.extend(attempt.timer(wire.now_ns, person, &mut wire));
        firings += 1;
        assert!(firings < 100, "it never ends: {attempt:?}");
    }
    assert_eq!(ends.first().copied(), attempt.end());
    (wire.sent.into(), ends, attempt.is_finished())
}

proptest! {
    #[test]
    fn whatever_comes_an_attempt_ends_once(
        (person, count) in people(),
        events in events(),
        seed in any::<u64>(),
    ) {
        let (sent, ends, is_finished) = survive(&person, count, &events, seed);
        prop_assert_eq!(ends.len(), 1);
        prop_assert!(is_finished);
        // The same seed and the same events are the same attempt.
        prop_assert_eq!(survive(&person, count, &events, seed).0, sent);
    }
}

/// Connected after nine seconds, with a window of 0: it would ask again a second later, which is when
/// ten seconds of patience end. Once that has fired nothing more is due then.
#[test]
fn patience_may_end_with_a_timer_of_the_connections() {
    let syn_ack = Event::Segment {
        flags: (Flags::SYN | Flags::ACK).0,
        seq: 0,
        ack: 0,
        window: 0,
        from: 0,
        length: 0,
        clock: None,
    };
    let events = [Event::Wait(9000), syn_ack, Event::Wait(1000)];
    let (_, ends, is_finished) = survive(&person("macos"), 1, &events, 0);
    assert_eq!(ends, [End::TimedOutWaiting]);
    assert!(is_finished);
}

#[test]
fn the_seed_chooses_the_numbers() {
    let first = |seed| survive(&person("linux"), 1, &[], seed).0[0].clone();
    assert_eq!(first(1), first(1));
    assert_ne!(first(1).seq, first(2).seq);
}
