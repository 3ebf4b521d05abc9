// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of a crowd: the one form that every driver of this client writes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::segment::{Flags, Segment};

/// What became of a crowd: of the attempts whose intended start was in the time that counts.
///
/// `attempts` is `replies` plus [`Errors::total`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Attempts counted.
    pub attempts: u64,
    /// Those that got a whole reply in time.
    pub replies: u64,
    /// Starts intended per second; in a closed loop, starts made.
    pub offered_per_s: f64,
    /// Requests answered over connections whose attempts ended during the time that counts, per
    /// second of it, no matter when they were asked for: what the server sustains. (Replies that
    /// only came because the load had ended are not in it.)
    pub replies_per_s: f64,
    /// The half-width of the 95 % interval of [`Outcome::replies_per_s`], by batch means as in
    /// [`Times::ci95`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies_per_s_ci95: Option<f64>,
    /// From intended start to whole reply, in ms, of `replies`.
    pub response_ms: Times,
    /// How many of those replies came within so many ms of the intended start.
    #[serde(default)]
    pub replies_within_ms: BTreeMap<u32, u64>,
    /// From intended start to being turned away, in ms, of those refused or reset.
    pub refusal_ms: Times,
    /// From intended start to the end, whatever it was, in ms: the "mean request delay" of Jamjoom,
    /// section 4.2, where a request that is given up took its time too.
    #[serde(default)]
    pub delay_ms: Times,
    /// The other attempts.
    pub errors: Errors,
    /// How far actual starts were behind the intended ones.
    pub late_starts: LateStarts,
    /// Most attempts under way at one time.
    pub in_flight_max: u64,
    /// The time that counts, in s.
    pub duration_s: f64,
    /// The schedule's seed.
    pub seed: u64,
    /// What carried the attempts, such as `sockets`; empty where nothing did.
    #[serde(default)]
    pub driver: String,
    /// Attempts by the SYNs they sent (Shukla, figure 4.9); empty where the driver cannot know.
    #[serde(default)]
    pub syns_per_attempt: BTreeMap<u32, SynClass>,
    /// Segments of all attempts, counted or not; zero where the driver cannot know.
    #[serde(default)]
    pub segments: Segments,
    /// Connections that clients hold in TIME-WAIT; none where the driver cannot know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_waits: Option<Held>,
    /// The time that counts, second by second; the last one may be shorter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<Second>,
    /// Visits to pages; none where attempts stood alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Visits>,
    /// The parts of the crowd, by their numbers, where they are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// What became of a part of a crowd, such as the clients of one network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Attempts counted.
    pub attempts: u64,
    /// Those that got a whole reply in time.
    pub replies: u64,
}

impl Part {
    /// The share of the attempts that got a whole reply in time.
    #[must_use]
    pub fn success(&self) -> f64 {
        self.replies as f64 / self.attempts.max(1) as f64
    }
}

impl Outcome {
    /// The same where one part of the time was not like another: how far the parts differ says nothing
    /// of how sure a mean is.
    #[must_use]
    pub fn of_uneven_time(mut self) -> Self {
        self.replies_per_s_ci95 = None;
        for times in [&mut self.response_ms, &mut self.refusal_ms, &mut self.delay_ms] {
            times.ci95 = None;
        }
        if let Some(visits) = &mut self.visits {
            visits.page_ms.ci95 = None;
            visits.abandoned_ms.ci95 = None;
        }
        self
    }
}

/// What is held at one side, and takes memory there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// How many at the end of the time that counts.
    pub at_end: u64,
    /// The most at a time until then.
    pub most: u64,
}

/// What became of a second of the time that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Attempts whose intended start was in it.
    pub started: u64,
    /// Of them, those that sent more than one SYN; 0 where the driver cannot know.
    pub repeated: u64,
    /// Of them, those that got no reply.
    pub failed: u64,
    /// Requests answered over connections whose attempts ended in it, as in
    /// [`Outcome::replies_per_s`].
    pub replies: u64,
}

/// What became of visits to pages, each of several attempts (Jamjoom, section 2.3): of those whose
/// intended start was in the time that counts.
///
/// `started` is `completed` plus `abandoned`. Their attempts are counted by their own intended
/// starts, so those of a visit's end may be beyond the time that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Visits {
    /// Visits begun.
    pub started: u64,
    /// Those whose page came with all its objects.
    pub completed: u64,
    /// Those given up since one of their attempts failed.
    pub abandoned: u64,
    /// From intended start to the last object, in ms, of those completed.
    pub page_ms: Times,
    /// From intended start to giving up, in ms, of those abandoned.
    pub abandoned_ms: Times,
}

/// Attempts that sent the same number of SYNs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SynClass {
    /// How many there were.
    pub attempts: u64,
    /// How many of them got no reply.
    pub errors: u64,
}

/// Segments by what they were; one with several flags is in several counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Segments {
    /// SYNs sent.
    pub syn_sent: u64,
    /// SYN/ACKs received.
    pub syn_ack_received: u64,
    /// Sent with nothing but an acknowledgement.
    pub ack_sent: u64,
    /// Sent with data.
    pub data_sent: u64,
    /// FINs sent.
    pub fin_sent: u64,
    /// RSTs sent.
    pub rst_sent: u64,
    /// RSTs received.
    pub rst_received: u64,
    /// All that were sent.
    pub sent: u64,
    /// All that were received.
    pub received: u64,
    /// Coming or going, that found no room at the clients' own device, or that it could not hand on:
    /// a veth says so, too, of what finds the server's backlog full. Until the load is over, and all leave.
    pub lost_here: u64,
}

impl Segments {
    /// Counts a segment that is sent.
    pub fn sends(&mut self, segment: &Segment<'_>) {
        let has = |flag| u64::from(segment.flags.has(flag));
        self.sent += 1;
        self.syn_sent += has(Flags::SYN);
        self.fin_sent += has(Flags::FIN);
        self.rst_sent += has(Flags::RST);
        self.data_sent += u64::from(!segment.payload.is_empty());
        self.ack_sent += u64::from(segment.flags == Flags::ACK && segment.payload.is_empty());
    }

    /// Counts a segment that came.
    pub fn receives(&mut self, segment: &Segment<'_>) {
        self.received += 1;
        self.rst_received += u64::from(segment.flags.has(Flags::RST));
        self.syn_ack_received += u64::from(segment.flags.has(Flags::SYN | Flags::ACK));
    }
}

/// A distribution of times in ms; all zero when there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The mean, in ms.
    pub mean: f64,
    /// The median, in ms.
    pub p50: f64,
    /// The 90th percentile, in ms.
    pub p90: f64,
    /// The 99th percentile, in ms.
    pub p99: f64,
    /// The longest, in ms.
    pub max: f64,
    /// The standard deviation, in ms.
    #[serde(default)]
    pub deviation: f64,
    /// The half-width of the 95 % interval of the mean, in ms, by batch means: the time that
    /// counts is cut into ten equal slices, and the interval is that of Student's t (9 degrees of
    /// freedom, 2.262) for the slices' means, by intended start. None when a slice was empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<f64>,
}

/// Attempts that got no reply, by how they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The SYN was answered with a RST (ECONNREFUSED).
    pub refused: u64,
    /// Connected, then reset (ECONNRESET, EPIPE).
    pub reset: u64,
    /// Given up after the timeout, never connected.
    pub timed_out_connecting: u64,
    /// Given up after the timeout, connected but without a whole reply.
    pub timed_out_waiting: u64,
    /// The server closed before the reply was whole.
    pub closed_early: u64,
    /// Whole replies with a status of 400 and above.
    pub http_error: u64,
    /// What came was not HTTP.
    pub nonsense: u64,
    /// Given up by a browser: their page was abandoned, or of two connections for the same the
    /// other was first.
    #[serde(default)]
    pub withdrawn: u64,
    /// Intended, but the generator was so far behind that it never got to them.
    pub not_started: u64,
    /// Everything else, by errno.
    pub other: BTreeMap<String, u64>,
}

impl Errors {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.refused
            + self.reset
            + self.timed_out()
            + self.closed_early
            + self.http_error
            + self.nonsense
            + self.withdrawn
            + self.not_started
            + self.other.values().sum::<u64>()
    }

    /// Those left hanging until they gave up.
    #[must_use]
    pub fn timed_out(&self) -> u64 {
        self.timed_out_connecting + self.timed_out_waiting
    }

    /// Those told no, by a RST sooner or later.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.refused + self.reset
    }
}

/// How far actual starts were behind the intended ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateStarts {
    /// The median lateness, in ms.
    pub p50_ms: f64,
    /// The 99th percentile, in ms.
    pub p99_ms: f64,
    /// The worst, in ms.
    pub max_ms: f64,
    /// Starts more than 1 ms late.
    pub over_1ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_of_before_is_still_read() {
        let times = r#"{"mean":1,"p50":1,"p90":1,"p99":1,"max":1}"#;
        let text = format!(
            r#"{{"attempts":1,"replies":1,"offered_per_s":1,"replies_per_s":1,
            "response_ms":{times},"refusal_ms":{times},"errors":{{"refused":0,"reset":0,
            "timed_out_connecting":0,"timed_out_waiting":0,"closed_early":0,"http_error":0,
            "nonsense":0,"not_started":0,"other":{{}}}},"late_starts":{{"p50_ms":0,"p99_ms":0,
            "max_ms":0,"over_1ms":0}},"in_flight_max":1,"duration_s":1,"seed":1}}"#
        );
        let outcome: Outcome = serde_json::from_str(&text).unwrap();
        assert_eq!(outcome.response_ms.ci95, None);
        assert_eq!(outcome.segments, Segments::default());
        assert_eq!(outcome.visits, None);
        assert_eq!(outcome.seconds, []);
        let again = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&again).unwrap(), outcome);
    }

    #[test]
    fn segments_are_counted_by_what_they_are() {
        let of = |flags, payload| Segment { flags, payload, ..Segment::default() };
        let mut segments = Segments::default();
        segments.sends(&of(Flags::SYN, b""));
        segments.sends(&of(Flags::ACK, b""));
        segments.sends(&of(Flags::ACK | Flags::PSH, b"data"));
        segments.sends(&of(Flags::ACK | Flags::FIN, b""));
        segments.sends(&of(Flags::RST, b""));
        segments.receives(&of(Flags::SYN | Flags::ACK, b""));
        segments.receives(&of(Flags::RST | Flags::ACK, b""));
        let expected = Segments {
            syn_sent: 1,
            syn_ack_received: 1,
            ack_sent: 1,
            data_sent: 1,
            fin_sent: 1,
            rst_sent: 1,
            rst_received: 1,
            sent: 5,
            received: 2,
            lost_here: 0,
        };
        assert_eq!(segments, expected);
    }
}
