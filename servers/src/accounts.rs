// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what a server counted can all be so.

use crate::statistics::Statistics;

/// No reply is shorter: a status line, and the end of the head.
const REPLY_MIN_BYTES: u64 = b"HTTP/1.1 200 OK\r\n\r\n".len() as u64;

impl Statistics {
    /// What contradicts what, if anything does.
    ///
    /// Each count is held against one that is made elsewhere, and before it: phases begin before
    /// anyone is accepted or worked on in them, a turn is counted when it begins and has one answer
    /// or refusal at most, and the bytes of a reply are counted as they go. Threads post their
    /// counts between turns, so that it is the same whenever somebody looks.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let answers = self.replies + self.not_found + self.unavailable;
        // Of the kernel's own the server has nothing to do.
        let decided = answers.saturating_sub(self.kernel_replies) + self.bad_requests;
        let any = |count: u64| count.min(1);
        [
            (self.accept_phases, "accept phases", any(self.accepted), self.accepted, "accepted"),
            (self.event_calls, "calls for events", any(self.fds_told), self.fds_told, "told of"),
            (self.work_phases, "work phases", any(self.work_items), self.work_items, "worked on"),
            (self.work_items, "turns of work", decided, decided, "answers and refusals"),
            (self.accepted, "connections", self.dead_connections, self.dead_connections, "dead"),
            (self.accepted, "connections", self.timed_out, self.timed_out, "timed out"),
            (self.bytes_sent, "bytes sent", answers * REPLY_MIN_BYTES, answers, "replies"),
        ]
        .into_iter()
        .find(|&(counted, _, least, _, _)| counted < least)
        .map(|(counted, what, _, count, of)| {
            format!("the server counted {counted} {what}, too few for {count} {of}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As little as can be.
    fn statistics() -> Statistics {
        Statistics {
            accepted: 7,
            accept_phases: 1,
            event_calls: 1,
            fds_told: 31,
            work_phases: 1,
            work_items: 17,
            replies: 12,
            not_found: 2,
            unavailable: 1,
            bad_requests: 2,
            dead_connections: 7,
            timed_out: 7,
            bytes_sent: 15 * REPLY_MIN_BYTES,
            ..Statistics::default()
        }
    }

    #[test]
    fn what_can_be_so_is_left_alone() {
        assert_eq!(statistics().contradiction(), None);
        assert_eq!(Statistics::default().contradiction(), None);
        let by_kernel = Statistics { work_items: 7, kernel_replies: 10, ..statistics() };
        assert_eq!(by_kernel.contradiction(), None);
    }

    #[test]
    fn whatever_cannot_is_told() {
        for (wrong, told) in [
            (Statistics { accept_phases: 0, ..statistics() }, "0 accept phases, too few for 7 acc"),
            (Statistics { event_calls: 0, ..statistics() }, "0 calls for events, too few for 31"),
            (Statistics { work_phases: 0, ..statistics() }, "0 work phases, too few for 17 worked"),
            (Statistics { replies: 13, ..statistics() }, "17 turns of work, too few for 18 answ"),
            (Statistics { not_found: 3, ..statistics() }, "17 turns of work, too few for 18 answ"),
            (Statistics { bad_requests: 3, ..statistics() }, "17 turns of work, too few for 18 a"),
            (Statistics { dead_connections: 8, ..statistics() }, "7 connections, too few for 8 de"),
            (Statistics { timed_out: 8, ..statistics() }, "7 connections, too few for 8 timed out"),
            (Statistics { bytes_sent: 284, ..statistics() }, "284 bytes sent, too few for 15 rep"),
        ] {
            let contradiction = wrong.contradiction().expect(told);
            assert!(contradiction.contains(told), "{contradiction}");
        }
    }
}
