// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel's verifier says of a program that it refuses: libbpf prints it with all that was
//! walked, and the last of it is why.

use std::cell::Cell;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    /// The last of this thread's programs that was refused. (All that libbpf prints would be more
    /// and more of it, in a daemon that stays.)
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
}

/// What stands around a log in what libbpf prints (`libbpf.c`, `bpf_object_load_prog()`).
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --\n";
const END: &str = "-- END PROG LOAD LOG --";

/// From here on libbpf prints nothing, and which program is refused on this thread is kept.
pub(crate) fn listen() {
    set_print(Some((PrintLevel::Warn, |_, message| {
        if let Some(refused) = refused_by(&message) {
            REFUSED.set(Some(refused));
        }
    })));
    REFUSED.take();
}

/// The program that was refused since [`listen`], and why.
pub(crate) fn refused() -> Option<Refused> {
    REFUSED.take()
}

/// A program, and the verifier's last word on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub program: String,
    /// One line.
    pub why: String,
}

fn refused_by(message: &str) -> Option<Refused> {
    let (head, rest) = message.split_once(BEGIN)?;
    let program = head.split('\'').nth(1)?.to_owned();
    let log = rest.split(END).next()?;
    let mut from_its_end = log.lines().rev().filter(|line| !is_sum(line));
    let last = from_its_end.next()?;
    // Of a range it is said first what does not fit into what (check_mem_region_access()).
    let is_of_range = last.ends_with("is outside of the allowed memory range");
    let why = from_its_end.next().filter(|_| is_of_range).unwrap_or(last);
    Some(Refused { program, why: why.trim().to_owned() })
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
        let refused = Refused { program: "tidegate_ip".to_owned(), why };
        assert_eq!(refused_by(LOG), Some(refused));
    }

    #[test]
    fn of_another_message_nothing_is_read() {
        for other in ["libbpf: failed to load object 'tc'\n", BEGIN, ""] {
            assert_eq!(refused_by(other), None, "{other}");
        }
    }
}
