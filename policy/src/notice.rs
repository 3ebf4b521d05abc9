// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a refusal says beyond itself, and what a client's host makes of it.

use std::net::IpAddr;
use std::time::Duration;

use crate::raw::{
    self, TG_NOTICE_TICK_NS, TG_NOTICE_TICKS_MOST, tg_notice_rst, tg_rules, tg_target,
};

/// When to come back, where a listener says no other time.
pub const COME_BACK: Duration = Duration::from_secs(1);
/// The longest that can be said.
pub const COME_BACK_MOST: Duration =
    Duration::from_nanos(TG_NOTICE_TICK_NS as u64 * TG_NOTICE_TICKS_MOST as u64);
/// How long the agent obeys at most, where no other time is given; jitter adds up to half of it.
pub const LONGEST: Duration = Duration::from_secs(60);

/// A time as notices carry it: hundredths of a second, and one at least where it is any.
#[must_use]
pub fn ticks(time: Duration) -> u32 {
    let ticks = time.as_nanos().div_ceil(u128::from(TG_NOTICE_TICK_NS));
    ticks.min(u128::from(TG_NOTICE_TICKS_MOST)) as u32
}

/// The time that so many ticks say.
#[must_use]
pub fn time(ticks: u32) -> Duration {
    Duration::from_nanos(u64::from(TG_NOTICE_TICK_NS) * u64::from(ticks))
}

/// Whether who is refused for this reason is refused though there is room.
#[must_use]
pub fn is_of_one(reason: u32) -> bool {
    // SAFETY: nothing is passed but a number.
    unsafe { raw::tg_native_notice_is_of_one(reason) != 0 }
}

/// What a refusal carries, one of `TG_NOTICE_BARE`, `TG_NOTICE_WHY` and `TG_NOTICE_WHY_WHEN`: one that is of
/// one connection, or one of the server, which has no room. The segment that it refuses is `spare_bytes` longer than a bare RST.
pub fn parts(rules: &tg_rules, is_of_one: bool, spare_bytes: u32) -> u32 {
    // SAFETY: the function reads only through this valid reference.
    unsafe { raw::tg_native_notice_parts(rules, is_of_one.into(), spare_bytes) }
}

/// What a RST is taken for: one of `TG_NOTICE_NONE` to `TG_NOTICE_TIMED`.
pub fn hear(rst: &tg_notice_rst) -> u32 {
    // SAFETY: the function reads only through this valid reference.
    unsafe { raw::tg_native_notice_hear(rst) }
}

/// Until when a destination is left alone. `stands_ns` is until when it was to be before; `random`
/// is uniform over 32 bits.
#[must_use]
pub fn until(stands_ns: u64, ticks: u32, longest_ms: u32, random: u32, now_ns: u64) -> u64 {
    // SAFETY: nothing is passed but numbers.
    unsafe { raw::tg_native_notice_until(stands_ns, ticks, longest_ms, random, now_ns) }
}

impl tg_target {
    /// Connections to this address and port, as the programs name them.
    #[must_use]
    pub fn of(address: IpAddr, port: u16) -> Self {
        let tuple = raw::tg_tuple::between((address, 0).into(), (address, port).into());
        let mut target =
            Self { addr: tuple.daddr, is_ipv6: address.is_ipv6().into(), port: port.into() };
        // SAFETY: the function reads and writes only through this valid reference.
        unsafe { raw::tg_native_target_unmap(&mut target) };
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raw::*;

    const S: u64 = 1_000_000_000;

    fn saying(notice: u32, come_back_ticks: u32) -> tg_rules {
        tg_rules { notice, come_back_ticks, ..Default::default() }
    }

    /// A refusal is never longer than what it refuses, and has a part whole or not at all.
    #[test]
    fn a_refusal_says_what_fits() {
        for (spare_bytes, fits) in [
            (0, TG_NOTICE_BARE),
            (7, TG_NOTICE_BARE),
            (8, TG_NOTICE_WHY),
            (15, TG_NOTICE_WHY),
            (16, TG_NOTICE_WHY_WHEN),
            (1460, TG_NOTICE_WHY_WHEN),
        ] {
            let says = parts(&saying(1, 100), false, spare_bytes);
            assert_eq!(says, fits, "{spare_bytes} bytes to spare");
            assert_eq!(parts(&saying(0, 100), false, spare_bytes), TG_NOTICE_BARE, "off means off");
        }
        assert_eq!(parts(&saying(1, 0), false, 20), TG_NOTICE_WHY);
    }

    /// A time would be heeded for the whole server: of that only the lack of room tells.
    #[test]
    fn by_lot_and_for_its_networks_sake_one_connection_is_refused_and_else_the_server_has_no_room()
    {
        let of_one: Vec<u32> = (0..TG_REASONS).filter(|reason| is_of_one(*reason)).collect();
        assert_eq!(of_one, [TG_EARLY_RANDOM, TG_POLICED, TG_BEYOND_SHARE]);
    }

    /// Another connection of the same client may be let through at once.
    #[test]
    fn who_is_refused_alone_is_told_why_and_not_when() {
        assert_eq!(parts(&saying(1, 100), true, 20), TG_NOTICE_WHY);
        assert_eq!(parts(&saying(1, TG_NOTICE_TICKS_MOST), true, 20), TG_NOTICE_WHY);
        assert_eq!(parts(&saying(1, 100), true, 7), TG_NOTICE_BARE);
        assert_eq!(parts(&saying(0, 100), true, 20), TG_NOTICE_BARE);
    }

    #[test]
    fn times_are_rounded_up_and_have_an_end() {
        for (time, said) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(10), 1),
            (Duration::from_millis(11), 2),
            (COME_BACK, 100),
            (COME_BACK_MOST, TG_NOTICE_TICKS_MOST),
            (Duration::from_secs(86_400), TG_NOTICE_TICKS_MOST),
        ] {
            assert_eq!(ticks(time), said, "{time:?}");
        }
        assert_eq!(time(250), Duration::from_millis(2500));
    }

    /// As a listener of ours refuses a connection that is being opened.
    fn ours() -> tg_notice_rst {
        tg_notice_rst {
            is_connecting: 1,
            has_ack: 1,
            ack: 1001,
            snd_una: 1000,
            write_seq: 1001,
            payload_bytes: 8,
            payload: [0x33aa_000a, 0],
            option: [0xfd06_5442, 200 << 16 | 0x0101],
        }
    }

    #[test]
    fn a_notice_is_believed_where_it_acknowledges_the_syn() {
        let heard = |change: &dyn Fn(&mut tg_notice_rst)| {
            let mut rst = ours();
            change(&mut rst);
            hear(&rst)
        };
        assert_eq!(heard(&|_| ()), TG_NOTICE_TIMED);
        for (ack, verdict) in [
            (1000, TG_NOTICE_UNBELIEVED),
            (1002, TG_NOTICE_UNBELIEVED),
            (0, TG_NOTICE_UNBELIEVED),
            (1001 ^ 0x8000_0000, TG_NOTICE_UNBELIEVED),
        ] {
            assert_eq!(heard(&|r| r.ack = ack), verdict, "acknowledges {ack}");
        }
        // Data in the SYN: either is a number that only the path knows (RFC 7413).
        assert_eq!(heard(&|r| r.write_seq = 1101), TG_NOTICE_TIMED);
        // Numbers wrap.
        let wrapped = |r: &mut tg_notice_rst| (r.snd_una, r.ack, r.write_seq) = (u32::MAX, 0, 0);
        assert_eq!(heard(&wrapped), TG_NOTICE_TIMED);
        assert_eq!(heard(&|r| r.has_ack = 0), TG_NOTICE_UNBELIEVED);
        assert_eq!(heard(&|r| r.is_connecting = 0), TG_NOTICE_UNBELIEVED);
    }

    /// snd_una is not set yet, and what lies between it and the initial sequence number is no SYN: of any two
    /// numbers that are half of all apart, one would acknowledge it.
    #[test]
    fn no_notice_is_believed_before_there_is_a_syn() {
        for (snd_una, ack, write_seq) in
            [(0, 1, 0x1234_5678), (0, 0x8000_0000, 0x9234_5678), (0, 65_536, 65_537)]
        {
            let rst = tg_notice_rst { snd_una, ack, write_seq, ..ours() };
            assert_eq!(hear(&rst), TG_NOTICE_UNBELIEVED, "{ack:#x} before {write_seq:#x}");
        }
        // A SYN, and as much data as any has.
        for ack in [1, 65_536] {
            let rst = tg_notice_rst { snd_una: 0, ack, write_seq: 65_536, ..ours() };
            assert_eq!(hear(&rst), TG_NOTICE_TIMED, "{ack:#x}");
        }
    }

    /// draft-ietf-tcpm-rst-diagnostic-payload-02, section 4.2: what is malformed is ignored, and the
    /// RST is one like any other.
    #[test]
    fn other_payloads_and_options_are_none_of_ours() {
        let heard = |change: &dyn Fn(&mut tg_notice_rst)| {
            let mut rst = ours();
            change(&mut rst);
            hear(&rst)
        };
        for bytes in [0, 7, 9] {
            assert_eq!(heard(&|r| r.payload_bytes = bytes), TG_NOTICE_NONE, "{bytes} bytes");
        }
        for payload in [[0x33ab_000a, 0], [0x33aa_0009, 0], [0x33aa_000a, 1]] {
            assert_eq!(heard(&|r| r.payload = payload), TG_NOTICE_NONE, "{payload:x?}");
        }
        for option in [
            [0, 0],
            [0xfe06_5442, 200 << 16],
            [0xfd08_5442, 200 << 16],
            [0xfd06_5457, 200 << 16],
            [0xfd06_5442, 0x0101],
        ] {
            assert_eq!(heard(&|r| r.option = option), TG_NOTICE_UNTIMED, "{option:x?}");
        }
    }

    #[test]
    fn clients_come_back_within_half_as_long_again() {
        let now = 7 * S;
        assert_eq!(until(0, 200, 60_000, 0, now), now + 2 * S);
        assert_eq!(until(0, 200, 60_000, 1 << 31, now), now + 2 * S + S / 2);
        let last = until(0, 200, 60_000, u32::MAX, now);
        assert!(last < now + 3 * S && last > now + 3 * S - S / 1000, "{last}");
        // Nobody waits for longer than the host allows, and half of that.
        let longest = until(0, TG_NOTICE_TICKS_MOST, 1_000, u32::MAX, now);
        assert!(longest < now + 3 * S / 2, "{longest}");
        assert_eq!(until(0, 100, 0, u32::MAX, now), now, "no time at all");
    }

    /// Many refusals of one server at once draw one lot, and not the longest of many.
    #[test]
    fn what_was_said_before_stands_where_it_is_late_enough() {
        let now = 7 * S;
        let stands = until(0, 200, 60_000, 1 << 30, now);
        assert_eq!(until(stands, 200, 60_000, u32::MAX, now), stands);
        assert_eq!(until(stands, 100, 60_000, u32::MAX, now), stands, "a shorter time");
        assert_eq!(until(stands, 1000, 60_000, 0, now), now + 10 * S, "a longer one");
        assert_eq!(until(stands, 200, 60_000, 0, now + S), now + 3 * S, "said again later");
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        let target = |address: &str| tg_target::of(address.parse().unwrap(), 80);
        assert_eq!(target("::ffff:192.0.2.1"), target("192.0.2.1"));
        assert_eq!(target("192.0.2.1").is_ipv6, 0);
        for other in ["::192.0.2.1", "2001:db8::ffff:192.0.2.1", "::1"] {
            assert_eq!(target(other).is_ipv6, 1, "{other}");
        }
    }
}
