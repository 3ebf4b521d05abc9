// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues of the listening socket, and the kernels' own rules for them.

use std::collections::VecDeque;

use tidegate_policy::raw::{
    TG_KERNEL_COOKIE, TG_LISTENQ_FULL_AT_SYN, TG_ROOM, TG_ROOM_RESERVE, TG_SYNQ_3_4_FULL,
    TG_SYNQ_FULL, tg_queues, tg_rules,
};
use tidegate_policy::syn_room;

use super::profile::{Kernel, Profile};

/// The SYN queue, as counts, and the listen queue.
#[derive(Debug)]
pub(crate) struct Listener {
    pub backlog: u32,
    /// Half-open requests.
    pub half_open: u32,
    /// Those of them whose SYN/ACK has not been sent again.
    pub young: u32,
    /// Connections that wait for accept(), by flow.
    pub queue: VecDeque<u32>,
}

impl Listener {
    pub(crate) fn new(backlog: u32) -> Self {
        let queue = VecDeque::with_capacity(backlog as usize + 1);
        Self { backlog, half_open: 0, young: 0, queue }
    }

    fn is_full(&self) -> bool {
        self.queue.len() > self.backlog as usize
    }

    /// The queues as they are.
    pub(crate) fn queues(&self, kernel: &Kernel) -> tg_queues {
        tg_queues {
            listen_len: self.queue.len() as u32,
            listen_max: self.backlog,
            syn_len: self.half_open,
            syn_max: kernel.syn_max,
            syncookies: kernel.syncookies,
            // One processor hands TCP one SYN after the other.
            claimed: 0,
            ..tg_queues::default()
        }
    }

    /// The same as an ACK finds them.
    pub(crate) fn queues_at_ack(&self, profile: Profile, kernel: &Kernel) -> tg_queues {
        let listen_max = profile.listen_max_at_ack(self.backlog);
        tg_queues { listen_max, ..self.queues(kernel) }
    }

    /// What the kernel does with a SYN now: a reason of the policy.
    pub(crate) fn room(&self, profile: Profile, kernel: &Kernel) -> u32 {
        match profile {
            Profile::Linux6 => syn_room(&tg_rules::default(), &self.queues(kernel), 0),
            Profile::Linux24 => self.room_2_4(kernel),
            Profile::Bsd => self.room_bsd(kernel),
            Profile::Windows if self.is_full() => TG_LISTENQ_FULL_AT_SYN,
            Profile::Windows => TG_ROOM,
        }
    }

    /// The same with one that ends TIME-WAIT. Linux asks for no room in the SYN queue then, for the
    /// request takes less than that did ("TW buckets are converted to open requests without
    /// limitations", `tcp_conn_request()`).
    pub(crate) fn room_after_time_wait(&self, profile: Profile, kernel: &Kernel) -> u32 {
        let is_full = match profile {
            Profile::Linux24 => self.is_full() && self.young > 1,
            Profile::Linux6 => self.is_full(),
            Profile::Bsd | Profile::Windows => return self.room(profile, kernel),
        };
        if is_full { TG_LISTENQ_FULL_AT_SYN } else { TG_ROOM }
    }

    /// `tcp_input()` and `syncache_add()` of FreeBSD.
    fn room_bsd(&self, kernel: &Kernel) -> u32 {
        if self.is_full() {
            TG_LISTENQ_FULL_AT_SYN
        } else if self.half_open < kernel.syn_max {
            TG_ROOM
        } else if kernel.syncookies > 0 {
            TG_KERNEL_COOKIE
        } else {
            TG_SYNQ_FULL
        }
    }

    /// `tcp_v4_conn_request()` of Linux 2.4 (Shukla, section 2.1.1, rules 1, 2 and 4).
    fn room_2_4(&self, kernel: &Kernel) -> u32 {
        let syn_queue_full = self.half_open >= kernel.syn_max;
        if syn_queue_full && kernel.syncookies == 0 {
            TG_SYNQ_FULL
        } else if self.is_full() && self.young > 1 {
            TG_LISTENQ_FULL_AT_SYN
        } else if syn_queue_full {
            TG_KERNEL_COOKIE
        } else if kernel.syncookies == 0 && kernel.syn_max - self.half_open < kernel.syn_max >> 2 {
            TG_SYNQ_3_4_FULL
        } else {
            TG_ROOM
        }
    }

    /// The queues as a mechanism is to see them: such that the rule of today's kernels, which the
    /// policy has, says of them what this kernel's own rule says. They tell no more than that: `auto`,
    /// which measures them, is not for these kernels. reserv's rule is its own: it sees half-open
    /// requests as claims, which are as many, for the SYN queue is not as long as the backlog here.
    pub(crate) fn shown(&self, profile: Profile, kernel: &Kernel, rules: &tg_rules) -> tg_queues {
        let queues = self.queues(kernel);
        if profile == Profile::Linux6 {
            return queues;
        }
        if rules.room == TG_ROOM_RESERVE {
            return tg_queues { syn_len: 0, claimed: queues.syn_len, ..queues };
        }
        let unbounded = tg_queues { listen_len: 0, listen_max: u32::MAX, ..queues };
        match self.room(profile, kernel) {
            TG_LISTENQ_FULL_AT_SYN => tg_queues { syn_len: 1, ..queues },
            TG_SYNQ_FULL | TG_KERNEL_COOKIE => {
                tg_queues { listen_len: 0, listen_max: self.half_open - 1, ..queues }
            }
            TG_SYNQ_3_4_FULL => unbounded,
            _ => tg_queues { syn_len: 1, listen_max: u32::MAX, ..queues },
        }
    }

    /// How often a SYN/ACK may be sent again now: less often where old requests crowd out young
    /// ones (`tcp_synack_timer()`, since Linux 4.4 `reqsk_timer_handler()`). Linux 2.4 spares those
    /// whose ACK came, only to a full listen queue.
    pub(crate) fn syn_acks_again(&self, profile: Profile, kernel: &Kernel, was_acked: bool) -> u8 {
        let is_crowded = match profile {
            Profile::Linux24 if was_acked => false,
            Profile::Linux24 => self.half_open * 2 >= kernel.syn_max,
            Profile::Linux6 => self.half_open * 2 > self.backlog.max(8),
            Profile::Bsd | Profile::Windows => false,
        };
        let mut times = profile.syn_acks_again();
        if is_crowded {
            let mut young = u64::from(self.young) * 2;
            while times > 2 && u64::from(self.half_open) >= young {
                times -= 1;
                young *= 2;
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_policy::decide_ack;
    use tidegate_policy::raw::{TG_HANDSHAKE, TG_NO_RESERVATION, tg_ack};

    fn listener(queued: u32, half_open: u32, young: u32) -> Listener {
        let mut listener = Listener::new(128);
        listener.queue.extend(0..queued);
        Listener { half_open, young, ..listener }
    }

    #[test]
    fn linux_2_4_refuses_at_a_full_listen_queue_only_with_young_requests() {
        let kernel = Kernel::of(Profile::Linux24);
        let room = |queued, half_open, young| {
            listener(queued, half_open, young).room(Profile::Linux24, &kernel)
        };
        assert_eq!(room(129, 1, 1), TG_ROOM);
        assert_eq!(room(129, 2, 2), TG_LISTENQ_FULL_AT_SYN);
        assert_eq!(room(128, 2, 2), TG_ROOM);
        assert_eq!(room(0, 768, 768), TG_ROOM);
        assert_eq!(room(0, 769, 0), TG_SYNQ_3_4_FULL);
        assert_eq!(room(0, 1024, 0), TG_SYNQ_FULL);
        assert_eq!(listener(129, 1, 1).room(Profile::Linux6, &kernel), TG_LISTENQ_FULL_AT_SYN);
        assert_eq!(listener(0, 129, 1).room(Profile::Linux6, &kernel), TG_SYNQ_FULL);
    }

    #[test]
    fn a_mechanism_sees_what_its_kernel_says() {
        let rules = tg_rules::default();
        for (profile, syncookies) in [
            (Profile::Linux24, 0),
            (Profile::Linux24, 1),
            (Profile::Bsd, 0),
            (Profile::Bsd, 1),
            (Profile::Windows, 0),
        ] {
            let kernel = Kernel { syncookies, ..Kernel::of(profile) };
            for (queued, half_open, young) in [
                (0, 0, 0),
                (129, 1, 1),
                (129, 2, 2),
                (0, 768, 9),
                (0, 769, 9),
                (0, 1024, 9),
                (129, 800, 0),
                (0, 15_360, 9),
            ] {
                let listener = listener(queued, half_open, young);
                let room = listener.room(profile, &kernel);
                let queues = listener.shown(profile, &kernel, &rules);
                let at = (queued, half_open, young);
                assert_eq!(syn_room(&rules, &queues, 0), room, "{at:?} {profile:?} {syncookies}");
            }
        }
    }

    /// Of the papers' kernel half-open requests hold places, and no SYN queue as long as the backlog.
    #[test]
    fn reserv_is_not_bound_by_todays_syn_queue_on_other_kernels() {
        let rules = tg_rules { room: TG_ROOM_RESERVE, overbook_x256: 512, ..tg_rules::default() };
        let told = |profile, half_open| {
            let kernel = Kernel::of(profile);
            let queues = listener(0, half_open, 9).shown(profile, &kernel, &rules);
            syn_room(&rules, &queues, 0)
        };
        for profile in [Profile::Linux24, Profile::Bsd, Profile::Windows] {
            assert_eq!(told(profile, 257), TG_ROOM, "{profile:?}");
            assert_eq!(told(profile, 258), TG_NO_RESERVATION, "{profile:?}");
        }
        assert_eq!(told(Profile::Linux6, 128), TG_ROOM);
        assert_eq!(told(Profile::Linux6, 129), TG_SYNQ_FULL);
    }

    /// `tcp_input()` of FreeBSD: a SYN while no more wait than the backlog says; listen(2): one and a
    /// half times as many in all.
    #[test]
    fn bsd_takes_syns_up_to_the_backlog_and_acks_up_to_one_and_a_half() {
        let kernel = Kernel::of(Profile::Bsd);
        let room = |queued, half_open| listener(queued, half_open, 9).room(Profile::Bsd, &kernel);
        assert_eq!(room(128, 9), TG_ROOM);
        assert_eq!(room(129, 9), TG_LISTENQ_FULL_AT_SYN);
        let lets_in = |queued| {
            let queues = listener(queued, 1, 1).queues_at_ack(Profile::Bsd, &kernel);
            let ack = tg_ack { is_request: 1, acceptable: 1, ..tg_ack::default() };
            decide_ack(&tg_rules::default(), &queues, &ack).reason == TG_HANDSHAKE
        };
        assert!(lets_in(192));
        assert!(!lets_in(193), "netstat shows 193 of 128 and no more");
    }

    /// Lemon (BSDCon 2002): the cache is as long as it is, whatever the backlog; beyond it there are
    /// cookies.
    #[test]
    fn bsd_has_a_syn_cache_that_the_backlog_does_not_bound() {
        let mut kernel = Kernel::of(Profile::Bsd);
        let of = |half_open, kernel: &Kernel| listener(0, half_open, 0).room(Profile::Bsd, kernel);
        assert_eq!(of(15_359, &kernel), TG_ROOM);
        assert_eq!(of(15_360, &kernel), TG_KERNEL_COOKIE);
        kernel.syncookies = 0;
        assert_eq!(of(15_360, &kernel), TG_SYNQ_FULL);
    }

    /// KB 113576: with a backlog of 5 the seventh SYN is refused.
    #[test]
    fn windows_looks_at_the_listen_queue_only() {
        let kernel = Kernel::of(Profile::Windows);
        let room = |queued, half_open| {
            let listener = Listener { backlog: 5, ..listener(queued, half_open, half_open) };
            listener.room(Profile::Windows, &kernel)
        };
        assert_eq!(room(5, 1_000_000), TG_ROOM);
        assert_eq!(room(6, 0), TG_LISTENQ_FULL_AT_SYN);
    }

    #[test]
    fn syn_acks_are_sent_again_three_times_by_bsd_and_twice_by_windows() {
        for (profile, times) in [(Profile::Bsd, 3), (Profile::Windows, 2)] {
            let kernel = Kernel::of(profile);
            assert_eq!(listener(0, 9999, 1).syn_acks_again(profile, &kernel, false), times);
        }
    }

    #[test]
    fn old_requests_are_given_up_sooner_where_they_crowd() {
        let kernel = Kernel::of(Profile::Linux6);
        let times = |half_open, young| {
            listener(0, half_open, young).syn_acks_again(Profile::Linux6, &kernel, false)
        };
        assert_eq!(times(64, 0), 5);
        assert_eq!(times(100, 0), 2);
        assert_eq!(times(100, 30), 4);
        assert_eq!(times(100, 90), 5);
    }
}
