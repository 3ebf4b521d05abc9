// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One person's attempt to be served: a connection, some requests, and so much patience.

mod parting;
mod person;

use nix::errno::Errno;
use rand_core::Rng;

use crate::connection::{Connection, Ended, Received};
use crate::http::{Progress, Reply};
use crate::segment::{Out, Segment};
use parting::Parting;

pub use parting::Close;
pub use person::Person;

/// How an attempt ended: exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Whole replies to all requests, with statuses below 400.
    Replied,
    /// A whole reply with another status.
    HttpError,
    /// ECONNREFUSED: a RST answered the SYN.
    Refused,
    /// ECONNRESET or EPIPE: a RST came after the SYN/ACK.
    Reset,
    /// The client gave up before it was connected.
    TimedOutConnecting,
    /// The client gave up connected, without a whole reply.
    TimedOutWaiting,
    /// The server closed, or said that it would, before all replies were whole.
    ClosedEarly,
    /// What came was not HTTP.
    Nonsense,
    /// The client itself had no more use for it: it belonged to a page that was abandoned, or
    /// another connection for the same was first.
    Withdrawn,
    /// Anything else, by errno; the generator's own troubles (EMFILE, EADDRNOTAVAIL) among them.
    Other(i32),
}

impl End {
    /// No port was free: EADDRNOTAVAIL, as connect() says.
    pub const NO_PORT: Self = Self::Other(Errno::EADDRNOTAVAIL as i32);
}

/// An attempt under way. Times are in ns, on any clock that does not go back.
///
/// The driver hands it segments and calls [`Attempt::timer`] when its time has come. After the
/// [`End`], the connection may still have to finish: the driver goes on until
/// [`Attempt::is_finished`]. What comes for a finished attempt is answered with
/// [`Segment::answer_to_stray`].
#[derive(Debug)]
pub struct Attempt {
    connection: Connection,
    reply: Reply,
    deadline_ns: u64,
    first: u32,
    count: u16,
    asked: u16,
    answered: u16,
    parting: Parting,
    end: Option<End>,
}

impl Attempt {
    /// Sends the first SYN. Over the connection it will make `count` requests, from the person's
    /// `first` on, round and round; at least one.
    pub fn start(
        now_ns: u64,
        person: &Person,
        first: u32,
        count: u16,
        rng: &mut impl Rng,
        out: &mut impl Out,
    ) -> Self {
        Self {
            connection: person.connect(now_ns, rng, out),
            reply: Reply::default(),
            deadline_ns: now_ns.saturating_add(person.timeout_ns),
            first,
            count: count.max(1),
            asked: 0,
            answered: 0,
            parting: Parting::None,
            end: None,
        }
    }

    /// Takes a segment, and says how the attempt ended if it just did.
    pub fn receive(
        &mut self,
        now_ns: u64,
        person: &Person,
        segment: &Segment<'_>,
        out: &mut impl Out,
    ) -> Option<End> {
        let data = self.data(person);
        let received = self.connection.receive(now_ns, segment, data, out);
        if self.end.is_some() {
            self.part(now_ns, person, out);
            return None;
        }
        self.end = self.proceed(now_ns, person, &received, out);
        if self.end.is_none() {
            self.end = self.connection.ended().map(|ended| self.failed(ended));
        }
        self.part(now_ns, person, out);
        self.end
    }

    /// Does what is due, and says how the attempt ended if it just did. Harmless when nothing is
    /// due.
    pub fn timer(&mut self, now_ns: u64, person: &Person, out: &mut impl Out) -> Option<End> {
        if self.end.is_none() && now_ns >= self.deadline_ns {
            let end = self.give_up(now_ns, person, out);
            // A timer of the connection's may be due in the same nanosecond.
            let data = self.data(person);
            self.connection.timer(now_ns, data, out);
            return end;
        }
        self.part(now_ns, person, out);
        let data = self.data(person);
        self.connection.timer(now_ns, data, out);
        if self.end.is_some() {
            return None;
        }
        self.end = self.connection.ended().map(|ended| self.failed(ended));
        self.end
    }

    /// The person leaves now, whatever has come; as when its patience ends.
    pub fn give_up(&mut self, now_ns: u64, person: &Person, out: &mut impl Out) -> Option<End> {
        if self.end.is_some() {
            return None;
        }
        self.end = Some(self.given_up());
        self.leave(now_ns, person, false, out);
        self.end
    }

    /// The client has no more use for it, and leaves now.
    pub fn withdraw(&mut self, now_ns: u64, person: &Person, out: &mut impl Out) -> Option<End> {
        if self.end.is_some() {
            return None;
        }
        self.end = Some(End::Withdrawn);
        self.leave(now_ns, person, false, out);
        self.end
    }

    /// When to call [`Attempt::timer`]. It may have come nearer after any call; where it has moved
    /// away, let the old one fire and ask again.
    #[inline]
    #[must_use]
    pub fn next_timer_ns(&self) -> Option<u64> {
        let is_parting = self.parting != Parting::None && self.connection.ended().is_none();
        let deadline_ns = (self.end.is_none() || is_parting).then_some(self.deadline_ns);
        let next_ns = self.connection.next_timer_ns();
        match deadline_ns.filter(|deadline_ns| *deadline_ns != u64::MAX) {
            Some(deadline_ns) => Some(next_ns.map_or(deadline_ns, |ns| ns.min(deadline_ns))),
            None => next_ns,
        }
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether it has ended and its connection too: the driver may forget it.
    #[inline]
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.end.is_some() && self.connection.ended().is_some()
    }

    /// How the connection ended, if it has; [`Attempt::wait`] says who holds TIME-WAIT then.
    #[must_use]
    pub fn connection_ended(&self) -> Option<Ended> {
        self.connection.ended()
    }

    /// Whether the SYN/ACK has come.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }

    /// How many SYNs it sent.
    #[must_use]
    pub fn syns(&self) -> u32 {
        self.connection.syns()
    }

    /// How many whole replies with a status below 400 it has got.
    #[must_use]
    pub fn answered(&self) -> u16 {
        self.answered
    }

    /// What was asked last: the connection keeps no copy.
    fn data<'a>(&self, person: &'a Person) -> &'a [u8] {
        match self.asked {
            _ if self.parting == Parting::Said => person.requests.client_close(),
            0 => b"",
            asked => self.bytes(person, asked - 1),
        }
    }

    fn place(&self, number: u16) -> u32 {
        self.first.wrapping_add(u32::from(number))
    }

    fn proceed(
        &mut self,
        now_ns: u64,
        person: &Person,
        received: &Received<'_>,
        out: &mut impl Out,
    ) -> Option<End> {
        let mut left = received.data;
        loop {
            self.ask(now_ns, person, out);
            if left.is_empty() {
                break;
            }
            if self.asked == self.answered {
                // Nothing has been asked, so this answers nothing.
                return Some(self.leave_with(End::Nonsense, now_ns, person, b"", out));
            }
            let (progress, used) = self.reply.take(left);
            left = &left[used..];
            if let Some(end) = self.judge(progress, now_ns, person, left, out) {
                return Some(end);
            }
        }
        if !received.fin {
            return None;
        }
        let progress = self.reply.end();
        if let Some(end) = self.judge(progress, now_ns, person, b"", out) {
            return Some(end);
        }
        Some(self.leave_with(End::ClosedEarly, now_ns, person, b"", out))
    }

    /// Makes the next request when the one before is answered, and acknowledged as well.
    fn ask(&mut self, now_ns: u64, person: &Person, out: &mut impl Out) {
        if self.asked > self.answered || !self.connection.is_drained() {
            return;
        }
        let bytes = self.bytes(person, self.asked);
        self.reply = person.requests.at(self.place(self.asked)).reply();
        self.asked += 1;
        self.connection.send(now_ns, bytes, out);
        if person.close == Close::HalfClose && self.asked == self.count {
            self.connection.shut(now_ns, bytes, out);
        }
    }

    fn judge(
        &mut self,
        progress: Progress,
        now_ns: u64,
        person: &Person,
        left: &[u8],
        out: &mut impl Out,
    ) -> Option<End> {
        let end = match progress {
            Progress::Partial => return None,
            Progress::Nonsense => End::Nonsense,
            Progress::Whole { status: 400.., .. } => End::HttpError,
            Progress::Whole { keeps_alive, .. } => {
                self.answered += 1;
                if self.answered == self.count {
                    End::Replied
                } else if !left.is_empty() {
                    End::Nonsense
                } else if keeps_alive {
                    return None;
                } else {
                    End::ClosedEarly
                }
            }
        };
        Some(self.leave_with(end, now_ns, person, left, out))
    }

    fn leave_with(
        &mut self,
        end: End,
        now_ns: u64,
        person: &Person,
        left: &[u8],
        out: &mut impl Out,
    ) -> End {
        if end == End::Replied && left.is_empty() {
            self.parting = Parting::by(person.close);
        }
        if self.parting == Parting::None {
            // A reader that counts leaves what is behind the reply.
            self.leave(now_ns, person, !left.is_empty(), out);
        }
        end
    }

    fn leave(&mut self, now_ns: u64, person: &Person, unread: bool, out: &mut impl Out) {
        match person.close {
            Close::Reset => self.connection.abort(now_ns, out),
            Close::Fin | Close::HalfClose | Close::Server | Close::ClientClose => {
                let data = self.data(person);
                self.connection.close(now_ns, unread, data, out);
            }
        }
    }

    fn given_up(&self) -> End {
        if self.is_connected() { End::TimedOutWaiting } else { End::TimedOutConnecting }
    }

    /// The connection ended before the attempt did.
    fn failed(&self, ended: Ended) -> End {
        match ended {
            Ended::Refused => End::Refused,
            Ended::Reset => End::Reset,
            Ended::TimedOut | Ended::Aborted => self.given_up(),
            Ended::Closed { .. } => End::ClosedEarly,
        }
    }
}

#[cfg(test)]
mod tests;
