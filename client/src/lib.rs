// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The people who come: a TCP client without I/O, and what it does with a server.
//!
//! It has no socket, no clock and no randomness of its own: time is a number of ns, chance is an
//! argument, and segments go to whoever implements [`Out`]. So the same client meets a real kernel
//! and a simulated one, and an attempt with the same seed and the same segments is the same.
//!
//! ```
//! use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
//! use tidegate_client::{Attempt, Close, End, Flags, Os, Out, Person, Requests, Segment};
//!
//! #[derive(Default)]
//! struct LastSeq(u32);
//! impl Out for LastSeq {
//!     fn send(&mut self, segment: Segment<'_>) {
//!         self.0 = segment.seq;
//!     }
//! }
//!
//! # fn main() -> Result<(), tidegate_client::UnknownOs> {
//! let person = Person {
//!     os: Os::named("windows-2000")?,
//!     mss: 1460,
//!     timeout_ns: 10_000_000_000,
//!     close: Close::Fin,
//!     time_wait: Default::default(),
//!     requests: Requests::get("example.org", ["/"]),
//! };
//! let (mut rng, mut out) = (ChaCha8Rng::seed_from_u64(1), LastSeq::default());
//! let mut attempt = Attempt::start(0, &person, 0, 1, &mut rng, &mut out);
//! let flags = Flags::RST | Flags::ACK;
//! let rst = Segment { flags, ack: out.0.wrapping_add(1), ..Segment::default() };
//! assert_eq!(attempt.receive(1000, &person, &rst, &mut out), None);
//! assert_eq!(attempt.receive(2000, &person, &rst, &mut out), None);
//! assert_eq!(attempt.receive(3000, &person, &rst, &mut out), Some(End::Refused));
//! assert_eq!(attempt.syns(), 3);
//! # Ok(())
//! # }
//! ```

pub mod arrivals;
pub mod attempt;
pub mod browser;
pub mod computed;
pub mod connection;
#[cfg(test)]
mod exchange;
pub mod geometric;
pub mod http;
pub mod model;
pub mod os;
pub mod outcome;
pub mod pairs;
pub mod progress;
pub mod segment;
pub mod specweb99;
pub mod tally;
pub mod time_wait;
pub mod trace;
pub mod visit;
pub mod way;

pub use arrivals::{Arrivals, Step};
pub use attempt::{Attempt, Close, End, Person};
pub use browser::{Browser, UnknownBrowser};
pub use connection::{Ended, Wait};
pub use geometric::geometric;
pub use http::{Request, Requests, Turn};
pub use os::{OnRefusal, Os, UnknownOs};
pub use outcome::{
    Errors, Held, LateStarts, Outcome, Part, Second, Segments, SynClass, Times, Visits,
};
pub use pairs::{LastNumbers, Pairs};
pub use progress::Progress;
pub use segment::{Flags, Options, Out, Segment};
pub use tally::Tally;
pub use time_wait::{TIME_WAIT_NS, TimeWaits};
pub use trace::{Trace, TraceError};
pub use visit::{Visit, VisitEnd};
