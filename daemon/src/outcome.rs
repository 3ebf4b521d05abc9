// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verdicts and reasons in an operator's words.

use tidegate_policy::is_refusal;
use tidegate_policy::raw::*;

/// Why, as the rest of a sentence.
fn because(reason: u32) -> &'static str {
    match reason {
        TG_ROOM => "the queues have room",
        TG_SYNQ_FULL => "the SYN queue is full",
        TG_SYNQ_3_4_FULL => {
            "half-open connections hold three quarters of tcp_max_syn_backlog, and there are no SYN cookies"
        }
        TG_LISTENQ_FULL_AT_SYN => "the listen queue is full",
        TG_KERNEL_COOKIE => {
            "a cookie is the only room, for the SYN queue is full, or tcp_syncookies is 2"
        }
        TG_NO_RESERVATION => {
            "connections that wait for accept(), and half-open ones, have reserved every place"
        }
        TG_EARLY_RANDOM => "places are short, and this one was drawn to be dropped early",
        TG_REFUSAL_LIMIT => "a refusal was due, but no more of them are allowed now",
        TG_NO_COOKIE => "a cookie was due, but none can be given to this SYN",
        TG_HALF_OPEN => "its request or connection stands already, or it joins one",
        TG_WAIT_LIMIT => "the kernel has room, but no more than now are to wait for accept()",
        TG_NEW_FIRST => "there is room, but for clients who have not waited",
        TG_POLICED => "its network sends more SYNs than it may",
        TG_BEYOND_SHARE => "there is not room for all, and its network has had its share",
        TG_EXEMPT => "its network is exempt, and the queues have room",
        TG_SHED_STATELESS => "the hash of this client or connection is in the share that is shed",
        TG_SHED_NEW => "a new connection, drawn to be shed",
        TG_SHED_AGAIN => "its SYN was shed before, and so is what it sends again",
        TG_SHED_UNIFORM => "of all SYNs this one was drawn to be shed",
        TG_SPARED => "it would be shed, but comes from a preferred proxy",
        TG_FORWARDED => "nothing on this path keeps it",
        TG_OVERFLOW_SYNACK_ACK => "the listen queue is full when its handshake ends",
        TG_OVERFLOW_OTHER => "the listen queue is full when its first data comes",
        TG_COOKIE_NO_ROOM => {
            "its cookie comes back, and no place of the listen queue is left for it"
        }
        TG_HOLLOW_ANSWERED => "it was refused before",
        _ => "no reason of a refusal",
    }
}

fn what(decision: tg_decision) -> &'static str {
    let tg_decision { verdict, reason } = decision;
    match verdict {
        TG_DROP => "dropped in silence",
        TG_RESET => "refused with RST",
        TG_HOLLOW => "answered with SYN/ACK, and with RST when that is answered",
        TG_COOKIE => "answered with a SYN cookie",
        // A queue drop, which the kernel makes.
        _ if is_refusal(decision) => "passed, and dropped in silence by the kernel",
        _ if reason == TG_KERNEL_COOKIE => "passed, and answered by the kernel with its own cookie",
        _ if reason == TG_NO_COOKIE => {
            "passed to the kernel, which drops it or has a cookie of its own"
        }
        _ if reason == TG_FORWARDED => "passed on to the listener's host",
        _ if matches!(reason, TG_ROOM | TG_EXEMPT) => "passed, and answered with SYN/ACK",
        // With SYN/ACK, or as a connection of its own answers it.
        _ if reason == TG_HALF_OPEN => "passed, and answered by the kernel",
        _ => "passed to the kernel",
    }
}

/// What is done with a SYN, and why.
pub fn words(decision: tg_decision) -> String {
    format!("{}: {}", what(decision), because(decision.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_a_syn_has_words_of_its_own() {
        let of_syns = (TG_ROOM..TG_HANDSHAKE).chain(TG_SHED_STATELESS..=TG_FORWARDED);
        let mut words = std::collections::BTreeSet::from([because(TG_REASONS)]);
        for reason in of_syns {
            assert!(words.insert(because(reason)), "reason {reason}: {}", because(reason));
        }
    }

    /// With `lazy` and `places` a queue refuses that is not full, though nobody is half-open; and the
    /// bound of SynQ3/4Full is not the SYN queue's.
    #[test]
    fn no_cause_is_told_that_need_not_be() {
        for (reason, cause) in [
            (TG_NO_RESERVATION, "connections that wait for accept(), and half-open ones"),
            (TG_COOKIE_NO_ROOM, "no place of the listen queue is left"),
            (TG_SYNQ_3_4_FULL, "three quarters of tcp_max_syn_backlog"),
        ] {
            assert!(because(reason).contains(cause), "{}", because(reason));
        }
    }

    #[test]
    fn who_makes_the_drop_is_told() {
        let told = |verdict, reason| words(tg_decision { verdict, reason });
        assert_eq!(
            told(TG_PASS, TG_LISTENQ_FULL_AT_SYN),
            "passed, and dropped in silence by the kernel: the listen queue is full"
        );
        assert_eq!(
            told(TG_DROP, TG_LISTENQ_FULL_AT_SYN),
            "dropped in silence: the listen queue is full"
        );
        assert_eq!(
            told(TG_RESET, TG_LISTENQ_FULL_AT_SYN),
            "refused with RST: the listen queue is full"
        );
        assert_eq!(
            told(TG_PASS, TG_HALF_OPEN),
            "passed, and answered by the kernel: its request or connection stands already, or it joins one"
        );
        assert!(told(TG_HOLLOW, TG_SHED_NEW).starts_with("answered with SYN/ACK, and with RST"));
    }
}
