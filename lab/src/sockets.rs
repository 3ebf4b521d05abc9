// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sockets of a namespace, and what one takes of the kernel's memory.

use std::fs;

use crate::error::LabError;
use crate::namespace::Namespace;

const STATISTICS: &str = "/proc/thread-self/net/sockstat";
const STATISTICS_V6: &str = "/proc/thread-self/net/sockstat6";
const SLABS: &str = "/proc/slabinfo";

/// TCP sockets of a namespace at one time, over IPv4 and IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Those with all their state, listening ones among them.
    pub in_use: u64,
    /// Those of which only a block is left: in TIME-WAIT, or in FIN-WAIT-2 where nobody holds them
    /// any more.
    pub time_waits: u64,
}

impl Sockets {
    /// Counts them now.
    ///
    /// # Errors
    /// [`LabError::File`], [`LabError::CounterFormat`].
    pub fn of(namespace: &Namespace) -> Result<Self, LabError> {
        let text = namespace.read_file(STATISTICS)?;
        // A kernel without IPv6 has no such file.
        let text_v6 = namespace.read_file(STATISTICS_V6).unwrap_or_default();
        Self::parse(&text, &text_v6).ok_or(LabError::CounterFormat { file: STATISTICS, line: text })
    }

    /// Lines hold a protocol and then names and values in turn. Blocks are counted once for both
    /// families.
    fn parse(text: &str, text_v6: &str) -> Option<Self> {
        let of_v4 = line(text, "TCP:")?;
        let in_use_v6 = line(text_v6, "TCP6:").and_then(|words| value(words, "inuse"));
        Some(Self {
            in_use: value(of_v4, "inuse")? + in_use_v6.unwrap_or(0),
            time_waits: value(of_v4, "tw")?,
        })
    }
}

/// What a socket over IPv4 takes, in bytes of the slab that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketBytes {
    /// One with all its state.
    pub in_use: u64,
    /// A block in TIME-WAIT.
    pub time_wait: u64,
}

impl SocketBytes {
    /// In this kernel; `None` where it does not tell.
    #[must_use]
    pub fn of_this_kernel() -> Option<Self> {
        Self::parse(&fs::read_to_string(SLABS).ok()?)
    }

    /// A slab's line: its name, its objects in use and in all, the bytes of one.
    fn parse(text: &str) -> Option<Self> {
        let bytes = |name| line(text, name)?.split_whitespace().nth(2)?.parse().ok();
        Some(Self { in_use: bytes("TCP")?, time_wait: bytes("tw_sock_TCP")? })
    }
}

/// What follows the first word of the line that begins with it.
fn line<'a>(text: &'a str, first: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(first).filter(|rest| rest.starts_with(' ')))
}

/// The number behind a name.
fn value(words: &str, name: &str) -> Option<u64> {
    let mut words = words.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{say_skipped, skip_without_root};

    #[test]
    fn both_families_are_counted() {
        let text = "sockets: used 15\nTCP: inuse 3 orphan 0 tw 41 alloc 9 mem 92\nUDP: inuse 5\n";
        let sockets = |in_use| Some(Sockets { in_use, time_waits: 41 });
        assert_eq!(Sockets::parse(text, "TCP6: inuse 2\nUDP6: inuse 7\n"), sockets(5));
        assert_eq!(Sockets::parse(text, ""), sockets(3));
        assert_eq!(Sockets::parse("TCP: inuse 3\n", ""), None);
        assert_eq!(Sockets::parse("TCP: inuse x tw 1\n", ""), None);
    }

    #[test]
    fn slabs_are_found_by_their_whole_name() {
        let text = "slabinfo - version: 2.1\n\
                    tw_sock_TCPv6        128    208    288   16    1 : tunables\n\
                    TCPv6                 91    156   2496   13    8 : tunables\n\
                    tw_sock_TCP          112    192    256   16    1 : tunables\n\
                    TCP                   53    104   2368   13    8 : tunables\n";
        let bytes = SocketBytes { in_use: 2368, time_wait: 256 };
        assert_eq!(SocketBytes::parse(text), Some(bytes));
        assert_eq!(SocketBytes::parse("TCP   53 104 2368\n"), None);
    }

    #[test]
    fn this_kernel_tells() {
        if skip_without_root("this_kernel_tells") {
            return;
        }
        let Some(bytes) = SocketBytes::of_this_kernel() else {
            return say_skipped("this_kernel_tells", &format!("{SLABS} does not tell"));
        };
        assert!(0 < bytes.time_wait && bytes.time_wait < bytes.in_use, "{bytes:?}");
    }
}
