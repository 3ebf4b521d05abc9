// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYN policing (Voigt, Tewari, Freimuth and Mehra, USENIX 2001): the rates of networks of clients,
//! where the networks are kept by the caller itself, as the simulator does.

use crate::raw::{self, TG_SOURCE_ANY, tg_limit, tg_tuple};

/// SYNs a second that a network may be given at most.
pub const SYNS_PER_S_MOST: u32 = 1_000_000;
/// SYNs that may come at once, at most.
pub const BURST_MOST: u32 = 1_000_000;
/// What a network may send at once where that is not said: what it may send in this part of a
/// second.
const BURST_PART: u32 = 10;

/// SYNs that may come at once of a network that may send so many a second, where that is not said.
#[must_use]
pub fn burst(syns_per_s: u32) -> u32 {
    (syns_per_s / BURST_PART).max(1)
}

impl tg_limit {
    /// So many SYNs a second, 1 at least, and so many at once after a pause, 1 at least.
    #[must_use]
    pub fn new(syns_per_s: u32, burst: u32) -> Self {
        let cost_ns = 1_000_000_000 / u64::from(syns_per_s.max(1));
        Self { cost_ns, burst_ns: cost_ns * u64::from(burst.max(1) - 1), ..Self::default() }
    }

    /// No rule of the guard's.
    #[must_use]
    pub fn exempt() -> Self {
        Self::default()
    }

    /// Whether it is no limit at all.
    fn is_exempt(&self) -> bool {
        self.cost_ns == 0
    }

    /// What a SYN is at that time, one of `TG_SOURCE_*`, which is taken from the bucket: it is given
    /// as the time at which it will be full again.
    pub fn take(&self, full_ns: &mut u64, now_ns: u64) -> u32 {
        // SAFETY: the function reads and writes only through these valid references.
        unsafe { raw::tg_native_limit_take(self, full_ns, now_ns) }
    }
}

/// A network of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Its address, as a tuple has it: network byte order, IPv4 in word 0.
    pub addr: [u32; 4],
    /// Whether that is IPv6's.
    pub is_ipv6: bool,
    /// How many of its bits count.
    pub bits: u8,
    /// What holds for it.
    pub limit: tg_limit,
}

impl Limited {
    fn has(&self, tuple: &tg_tuple) -> bool {
        let apart = |word: usize| u32::from_be(self.addr[word] ^ tuple.saddr[word]);
        let differs_at = (0..4).find(|word| apart(*word) != 0);
        let in_common =
            differs_at.map_or(128, |word| 32 * word as u32 + apart(word).leading_zeros());
        self.is_ipv6 == (tuple.is_ipv6 != 0) && in_common >= u32::from(self.bits)
    }
}

/// Networks with their buckets.
#[derive(Clone, Debug, Default)]
pub struct Police {
    networks: Vec<(Limited, u64)>,
}

impl Police {
    /// Of these networks.
    #[must_use]
    pub fn new(networks: &[Limited]) -> Self {
        Self { networks: networks.iter().map(|network| (*network, 0)).collect() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// What the rules say of a SYN's client: one of `TG_SOURCE_*`. The longest network counts.
    pub fn source(&mut self, tuple: &tg_tuple, now_ns: u64) -> u32 {
        let has = self.networks.iter_mut().filter(|(network, _)| network.has(tuple));
        match has.max_by_key(|(network, _)| network.bits) {
            Some((network, full_ns)) => network.limit.take(full_ns, now_ns),
            None => TG_SOURCE_ANY,
        }
    }

    /// Whether they say that a client is exempt, of a segment that costs none of its network's SYNs.
    #[must_use]
    pub fn exempts(&self, tuple: &tg_tuple) -> bool {
        let has = self.networks.iter().filter(|(network, _)| network.has(tuple));
        has.max_by_key(|(network, _)| network.bits)
            .is_some_and(|(network, _)| network.limit.is_exempt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{TG_SOURCE_EXEMPT, TG_SOURCE_OVER, tg_bucket};

    const MS: u64 = 1_000_000;

    /// A hundred a second and ten at once: ten, and then one each 10 ms.
    #[test]
    fn a_burst_and_then_the_rate() {
        let (limit, mut full_ns) = (tg_limit::new(100, 10), 0);
        let mut passed = |from_ms: u64, to_ms: u64| {
            let syns = (from_ms..to_ms).map(|at_ms| limit.take(&mut full_ns, at_ms * MS));
            syns.filter(|source| *source == TG_SOURCE_ANY).count()
        };
        assert_eq!(passed(5000, 6000), 10 + 99);
        assert_eq!(passed(6000, 7000), 100);
        // After a pause the bucket is full again, and no fuller than that.
        assert_eq!(passed(9000, 9001) + passed(9001, 9010), 10);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_away() {
        let (limit, mut full_ns) = (tg_limit::new(100, 1), 0);
        assert_eq!(limit.take(&mut full_ns, 1000 * MS), TG_SOURCE_ANY);
        assert_eq!(limit.take(&mut full_ns, 900 * MS), TG_SOURCE_OVER);
        assert_eq!(limit.take(&mut full_ns, 1010 * MS), TG_SOURCE_ANY);
    }

    /// The TCP entry's clock is exact, the IP entry's a few ms behind, and both take from one bucket.
    #[test]
    fn two_clocks_of_one_bucket_give_no_time_twice() {
        let (mut bucket, per_s, seconds) = (tg_bucket::default(), 100, 10);
        let mut take = |now_ns| {
            // SAFETY: the function reads and writes only through this valid reference.
            unsafe { raw::tg_native_bucket_take(&mut bucket, 1_000_000_000 / per_s, now_ns) }
        };
        let taken = |now_ns| take(now_ns) + take(now_ns - 3 * MS);
        let taken: i32 = (5000..5000 + 1000 * seconds).map(|at_ms| at_ms * MS).map(taken).sum();
        // Ten at once, for the bucket was full.
        assert!((taken as u64).abs_diff(10 + per_s * seconds) <= 1, "{taken}");
    }

    #[test]
    fn the_longest_network_counts_and_families_are_apart() {
        let network = |addr: [u8; 4], bits, limit| Limited {
            addr: [u32::from_ne_bytes(addr), 0, 0, 0],
            is_ipv6: false,
            bits,
            limit,
        };
        let mut police = Police::new(&[
            network([10, 0, 0, 0], 8, tg_limit::new(1, 1)),
            network([10, 1, 0, 0], 16, tg_limit::exempt()),
            network([10, 1, 2, 0], 24, tg_limit::new(1, 1)),
        ]);
        let mut source = |from: &str| {
            let to = if from.starts_with('[') { "[2001:db8::1]:80" } else { "192.0.2.1:80" };
            let tuple = tg_tuple::between(from.parse().unwrap(), to.parse().unwrap());
            police.source(&tuple, 1000 * MS)
        };
        assert_eq!(source("10.2.0.1:1000"), TG_SOURCE_ANY);
        assert_eq!(source("10.3.0.1:1000"), TG_SOURCE_OVER, "one bucket for all of 10/8");
        for _ in 0..3 {
            assert_eq!(source("10.1.3.1:1000"), TG_SOURCE_EXEMPT);
        }
        assert_eq!((source("10.1.2.1:1"), source("10.1.2.2:1")), (TG_SOURCE_ANY, TG_SOURCE_OVER));
        assert_eq!(source("11.0.0.1:1000"), TG_SOURCE_ANY);
        // The same first bits, and no address of that network.
        assert_eq!(source("[a00::1]:1000"), TG_SOURCE_ANY);
    }
}
