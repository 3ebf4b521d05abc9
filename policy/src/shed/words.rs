// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words and the bounds in which persistent dropping (Jamjoom and Shin, SIGCOMM 2003) is asked
//! for, by an operator and by a scenario.

use std::ops::RangeInclusive;

use crate::names::{SHED_KEYS, SHED_POLICIES, SHED_REFUSALS};
use crate::raw::*;

/// p* that may be asked for: less is nothing that a listener would notice.
pub const P_RANGE: RangeInclusive<f64> = 0.001..=1.0;
/// n + 1 of who is shed in silence, where nothing is said of it: Windows 10 and 11 send five SYNs
/// before they give up. See [`Refusal::attempts`].
pub const ATTEMPTS: u32 = 5;
/// The largest n + 1.
pub const ATTEMPTS_MOST: u32 = 100;
/// λ₀ᵐᵃˣ of Eq. 9 where nothing is said of it: the table then takes 1 MB.
pub const ARRIVALS_PER_S: u32 = 10_000;
/// The largest λ₀ᵐᵃˣ of Eq. 9, new connections a second.
pub const ARRIVALS_PER_S_MOST: u32 = 1_000_000;
/// σ of Eq. 9 where nothing is said of it.
pub const OVERSIZE: f64 = 1.2;

/// One of a few words, with its number in the rules.
pub trait Word: Copy + Default + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// As it is written.
    fn name(self) -> &'static str;

    /// As the rules have it.
    fn number(self) -> u32;

    /// The word that is written so.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.name() == name)
    }

    /// All of them for a person: in quotes, with commas.
    fn list() -> String {
        let quoted = Self::ALL.iter().map(|word| format!("\"{}\"", word.name()));
        quoted.collect::<Vec<_>>().join(", ")
    }
}

/// Who is dropped at every attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Policy {
    /// Nobody: every SYN is drawn for, the paper's baseline.
    Rbd = TG_RBD,
    /// Whom a keyed hash chooses (3.4.1).
    #[default]
    Slpd = TG_SLPD,
    /// Who is drawn, as a table remembers (3.4.2).
    Sbpd = TG_SBPD,
}

impl Policy {
    /// Whether what it sheds can be this. SBPD by client would shed nearly everyone: a client that
    /// was not drawn leaves no trace, so each of its connections is a new chance to be, and then
    /// 75 s without any. The paper has it by connection alone (3.4.2).
    #[must_use]
    pub fn can_shed_by(self, key: Key) -> bool {
        (self, key) != (Self::Sbpd, Key::Client)
    }
}

impl Word for Policy {
    const ALL: &'static [Self] = &[Self::Rbd, Self::Slpd, Self::Sbpd];

    fn name(self) -> &'static str {
        SHED_POLICIES[self as usize]
    }

    fn number(self) -> u32 {
        self as u32
    }
}

/// What is dropped as one (3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Key {
    /// All connections of an address: H1.
    Client = TG_KEY_CLIENT,
    /// Each connection by itself: H2.
    #[default]
    Connection = TG_KEY_CONNECTION,
}

impl Word for Key {
    const ALL: &'static [Self] = &[Self::Client, Self::Connection];

    fn name(self) -> &'static str {
        SHED_KEYS[self as usize]
    }

    fn number(self) -> u32 {
        self as u32
    }
}

/// The form of refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// None, the paper's.
    #[default]
    Silence = TG_REFUSE_SILENTLY,
    /// RST.
    Rst = TG_REFUSE_RESET,
    /// SYN/ACK, and RST for who answers it.
    Cookie = TG_REFUSE_COOKIE,
}

impl Refusal {
    /// n + 1 where nothing is said of it. Who is told does not come again: each SYN is a
    /// connection. (Windows comes again after a RST, and is then shed by a fallback less than
    /// others.)
    #[must_use]
    pub fn attempts(self) -> u32 {
        match self {
            Refusal::Silence => ATTEMPTS,
            Refusal::Rst | Refusal::Cookie => 1,
        }
    }
}

impl Word for Refusal {
    const ALL: &'static [Self] = &[Self::Silence, Self::Rst, Self::Cookie];

    fn name(self) -> &'static str {
        SHED_REFUSALS[self as usize]
    }

    fn number(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        assert_eq!(Policy::named("sbpd").map(Policy::number), Some(TG_SBPD));
        assert_eq!(Key::named("client").map(Key::number), Some(TG_KEY_CLIENT));
        assert_eq!(Refusal::named("rst").map(Refusal::number), Some(TG_REFUSE_RESET));
        assert_eq!(Policy::named("off"), None);
        assert_eq!(Policy::list(), "\"rbd\", \"slpd\", \"sbpd\"");
        assert_eq!(Key::list(), "\"client\", \"connection\"");
        assert_eq!(Refusal::list(), "\"silence\", \"rst\", \"cookie\"");
    }

    #[test]
    fn only_sbpd_wants_the_connection() {
        for policy in Policy::ALL {
            assert!(policy.can_shed_by(Key::Connection));
            assert_eq!(policy.can_shed_by(Key::Client), *policy != Policy::Sbpd);
        }
    }
}
