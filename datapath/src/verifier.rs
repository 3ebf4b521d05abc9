// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel's verifier says of a program that it refuses: libbpf prints it with all that was
//! walked, and the last of it is why. And which map it was that the kernel did not make.

use std::cell::Cell;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    /// The last of this thread's programs and maps that was refused. (All that libbpf prints would be
    /// more and more of it, in a daemon that stays.)
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
}

/// What stands around a log in what libbpf prints (`libbpf.c`, `bpf_object_load_prog()`).
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --\n";
const END: &str = "-- END PROG LOAD LOG --";
/// What it prints behind the name of a map that it could not make (`bpf_object__create_maps()`).
const NOT_MADE: &str = ": failed to create: ";

/// From here on libbpf prints nothing, and what is refused on this thread is kept.
pub(crate) fn listen() {
    set_print(Some((PrintLevel::Warn, |_, message| {
        if let Some(refused) = refused_by(&message) {
            REFUSED.set(Some(refused));
        }
    })));
    REFUSED.take();
}

/// What was refused since [`listen`].
pub(crate) fn refused() -> Option<Refused> {
    REFUSED.take()
}

/// What the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// A program.
    Program {
        /// Its name.
        name: String,
        /// The verifier's last word on it, one line.
        why: String,
    },
    /// A map.
    Map {
        /// Its name.
        name: String,
    },
}

fn refused_by(message: &str) -> Option<Refused> {
    refused_program(message).or_else(|| refused_map(message))
}

/// The name in quotes with which a message begins.
fn named(head: &str) -> Option<String> {
    head.split('\'').nth(1).map(str::to_owned)
}

fn refused_map(message: &str) -> Option<Refused> {
    let (head, _) = message.split_once(NOT_MADE)?;
    Some(Refused::Map { name: named(head)? })
}

fn refused_program(message: &str) -> Option<Refused> {
    let (head, rest) = message.split_once(BEGIN)?;
    let name = named(head)?;
    let log = rest.split(END).next()?;
    let mut from_its_end = log.lines().rev().filter(|line| !is_sum(line));
    let last = from_its_end.next()?;
    // Of a range it is said first what does not fit into what (check_mem_region_access()).
    let is_of_range = last.ends_with("is outside of the allowed memory range");
    let why = from_its_end.next().filter(|_| is_of_range).unwrap_or(last);
    Some(Refused::Program { name, why: why.trim().to_owned() })
}

/// What a log closes with, whatever became of the program.
fn is_sum(line: &str) -> bool {
    ["processed ", "verification time ", "stack depth "].iter().any(|sum| line.starts_with(sum))
        || line.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "libbpf: prog 'tidegate_ip': -- BEGIN PROG LOAD LOG --\n\
        0: R1=ctx() R10=fp0\n\
        ; int tidegate_ip(struct __sk_buff *skb) @ tc.bpf.c:40\n\
        0: (bf) r6 = r1                       ; R1=ctx() R6=ctx()\n\
        combined stack size of 3 calls is 528. Too large\n\
        verification time 123 usec\n\
        stack depth 0+328+200\n\
        processed 1804 insns (limit 1000000) max_states_per_insn 4 total_states 90 peak_states 90 mark_read 0\n\
        -- END PROG LOAD LOG --\n";

    #[test]
    fn the_last_line_before_the_sums_is_why() {
        let why = "combined stack size of 3 calls is 528. Too large".to_owned();
        let refused = Refused::Program { name: "tidegate_ip".to_owned(), why };
        assert_eq!(refused_by(LOG), Some(refused));
    }

    #[test]
    fn a_map_that_is_not_made_is_named() {
        let refused = Refused::Map { name: "held_table".to_owned() };
        let message = "libbpf: map 'held_table': failed to create: -ENOMEM\n";
        assert_eq!(refused_by(message), Some(refused));
    }

    #[test]
    fn of_another_message_nothing_is_read() {
        let tried_again = "libbpf: Error in bpf_create_map_xattr(said): -EINVAL. Retrying\n";
        for other in ["libbpf: failed to load object 'tc'\n", tried_again, BEGIN, NOT_MADE, ""] {
            assert_eq!(refused_by(other), None, "{other}");
        }
    }
}
