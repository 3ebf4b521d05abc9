// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays packet exchanges written as text against an attempt, for tests.
//!
//! A line is a time in ms since the first SYN and what happens then. Sequence numbers are relative,
//! as tcpdump shows them.
//!
//! ```text
//! 0   client > SYN seq 0                      must be sent, at this very time
//! 10  server > SYN ACK seq 0 ack 1            is handed to the client
//! 12  server > PSH ACK seq 1 ack 101 data 0..1000     with these bytes of the reply
//! 12  end Replied                             the attempt has ended so (or `end None`)
//! 12  connection Reset                        the connection has ended so (or `None`)
//! ```
//! After the last line, the client must have nothing left to say up to that time.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::attempt::{Attempt, Close, End, Person};
use crate::http::Requests;
use crate::os::Os;
use crate::pairs::LastNumbers;
use crate::segment::{Flags, Options, Out, Segment, Timestamps};

/// A clock that has been running for a while.
const BEGIN_NS: u64 = 5_000_000_000;
/// The server's first sequence number: it wraps around within the first reply.
const SERVER_FIRST: u32 = u32::MAX - 100;
const MS_NS: u64 = 1_000_000;

/// A person of this system whose request is 100 bytes long and whose patience is 10 s.
pub(crate) fn person(os: &str) -> Person {
    let host = "h".repeat(47);
    Person {
        os: Os::named(os).unwrap(),
        mss: 1460,
        timeout_ns: 10_000 * MS_NS,
        close: Close::Fin,
        time_wait: Default::default(),
        requests: Requests::get(&host, ["/"]),
    }
}

/// A reply of 1000 bytes that keeps the connection.
pub(crate) fn reply() -> Vec<u8> {
    let mut reply = b"HTTP/1.1 200 OK\r\nContent-Length: 960\r\n\r\n".to_vec();
    reply.resize(1000, b'x');
    reply
}

/// What was sent, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub at_ns: u64,
    pub flags: Flags,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub options: Options,
    pub payload: Vec<u8>,
}

/// Keeps all that is sent.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub now_ns: u64,
    pub sent: VecDeque<Sent>,
    /// Whether its host has room to hold pairs, and those that it was to hold.
    pub has_room: bool,
    pub held: Vec<LastNumbers>,
    /// Where its pair's numbers begin, if it is used again.
    pub pair_first: Option<u32>,
}

impl Out for Wire {
    fn send(&mut self, segment: Segment<'_>) {
        self.sent.push_back(Sent {
            at_ns: self.now_ns,
            flags: segment.flags,
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            options: segment.options,
            payload: segment.payload.to_vec(),
        });
    }

    fn can_hold(&mut self) -> bool {
        self.has_room
    }

    fn hold(&mut self, last: &LastNumbers) -> bool {
        self.held.extend(self.has_room.then_some(*last));
        self.has_room
    }

    fn pair_first(&mut self) -> Option<u32> {
        self.pair_first
    }
}

/// An attempt, and a server made of text.
pub(crate) struct Exchange {
    pub person: Person,
    pub attempt: Attempt,
    pub wire: Wire,
    pub reply: Vec<u8>,
    pub server_options: Options,
    pub client_first: u32,
    ends: Vec<End>,
}

impl Exchange {
    pub(crate) fn begin(person: Person, count: u16) -> Self {
        Self::begin_at(Wire { now_ns: BEGIN_NS, has_room: true, ..Wire::default() }, person, count)
    }

    /// The same of a client whose host has no room to hold pairs.
    pub(crate) fn begin_without_room(person: Person) -> Self {
        Self::begin_at(Wire { now_ns: BEGIN_NS, ..Wire::default() }, person, 1)
    }

    fn begin_at(mut wire: Wire, person: Person, count: u16) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let attempt = Attempt::start(BEGIN_NS, &person, 0, count, &mut rng, &mut wire);
        let client_first = wire.sent[0].seq;
        let reply = reply();
        let server_options = Options { mss: Some(1460), ..Options::default() };
        Self { person, attempt, wire, reply, server_options, client_first, ends: Vec::new() }
    }

    /// Plays the lines, and panics at the first that does not come true.
    pub(crate) fn play(&mut self, script: &str) -> &mut Self {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.play_line(line);
        }
        assert_eq!(self.wire.sent, [], "unexpected after\n{script}");
        self
    }

    /// Plays one line, whatever the client has to say afterwards.
    pub(crate) fn play_line(&mut self, line: &str) {
        let (at_ms, what) = line.trim().split_once(char::is_whitespace).expect(line);
        let at_ms: f64 = at_ms.parse().expect(line);
        self.pass_until((at_ms * MS_NS as f64).round() as u64);
        self.happen(what.trim(), line);
    }

    /// Lets time pass, firing timers when they are due.
    pub(crate) fn pass_until(&mut self, since_ns: u64) {
        let to_ns = BEGIN_NS + since_ns;
        while let Some(next_ns) = self.attempt.next_timer_ns().filter(|next_ns| *next_ns <= to_ns) {
            self.wire.now_ns = next_ns.max(self.wire.now_ns);
            let end = self.attempt.timer(self.wire.now_ns, &self.person, &mut self.wire);
            self.ends.extend(end);
        }
        self.wire.now_ns = to_ns;
    }

    fn happen(&mut self, what: &str, line: &str) {
        if let Some(expected) = what.strip_prefix("client > ") {
            let sent = self.wire.sent.pop_front();
            let sent = sent.unwrap_or_else(|| panic!("nothing was sent for `{line}`"));
            let at_ms = (sent.at_ns - BEGIN_NS) as f64 / MS_NS as f64;
            let now_ms = (self.wire.now_ns - BEGIN_NS) as f64 / MS_NS as f64;
            assert_eq!((at_ms, self.text(&sent)), (now_ms, expected.to_owned()), "in `{line}`");
        } else if let Some(segment) = what.strip_prefix("server > ") {
            self.serve(segment, line);
        } else if let Some(end) = what.strip_prefix("end ") {
            let ends = format!("{:?}", self.ends);
            let expected = if end == "None" { "[]".to_owned() } else { format!("[{end}]") };
            assert_eq!(ends, expected, "in `{line}`");
        } else if let Some(ended) = what.strip_prefix("connection ") {
            let got = format!("{:?}", self.attempt.connection_ended());
            assert!(got.contains(ended), "{got} in `{line}`");
        } else {
            panic!("what is `{line}`?");
        }
    }

    fn text(&self, sent: &Sent) -> String {
        let mut text = format!("{:?} seq {}", sent.flags, sent.seq.wrapping_sub(self.client_first));
        if sent.flags.has(Flags::ACK) {
            text += &format!(" ack {}", sent.ack.wrapping_sub(SERVER_FIRST));
        }
        if !sent.payload.is_empty() {
            text += &format!(" len {}", sent.payload.len());
        }
        text
    }

    fn serve(&mut self, text: &str, line: &str) {
        let mut segment = Segment { window: 500, ..Segment::default() };
        let reply = self.reply.clone();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).expect(line);
            match word {
                "SYN" => segment.flags |= Flags::SYN,
                "FIN" => segment.flags |= Flags::FIN,
                "RST" => segment.flags |= Flags::RST,
                "PSH" => segment.flags |= Flags::PSH,
                "ACK" => segment.flags |= Flags::ACK,
                "seq" => segment.seq = SERVER_FIRST.wrapping_add(number()),
                "ack" => segment.ack = self.client_first.wrapping_add(number()),
                "win" => segment.window = number() as u16,
                "data" => {
                    let (from, to) =
                        words.next().and_then(|span| span.split_once("..")).expect(line);
                    segment.payload = &reply[from.parse().unwrap()..to.parse().unwrap()];
                }
                _ => panic!("what is {word} in `{line}`?"),
            }
        }
        if segment.flags.has(Flags::SYN) {
            segment.options = self.server_options;
        } else if let Some(clocks) = self.server_options.timestamps {
            segment.options.timestamps = Some(clocks);
        }
        self.hand(&segment);
    }

    /// Hands a segment to the client.
    pub(crate) fn hand(&mut self, segment: &Segment<'_>) {
        let now_ns = self.wire.now_ns;
        let end = self.attempt.receive(now_ns, &self.person, segment, &mut self.wire);
        self.ends.extend(end);
    }

    /// Has the server's segments carry these clocks from now on.
    pub(crate) fn server_clocks(&mut self, value: u32, echo: u32) {
        self.server_options.timestamps = Some(Timestamps { value, echo });
    }
}

/// Plays an exchange with one request.
pub(crate) fn play(person: Person, script: &str) {
    Exchange::begin(person, 1).play(script);
}
