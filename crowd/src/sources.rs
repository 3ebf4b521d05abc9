// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Source addresses by number.

use std::net::IpAddr;

use ipnet::IpNet;

/// No family of sources needs more than 2^32 addresses, and port numbers multiply them.
const ADDRESSES_MAX: u64 = 1 << 32;

/// Addresses of one family that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    ipv6: bool,
    first: u128,
    last: u128,
}

impl Range {
    /// The addresses of a prefix that a host may have.
    pub(crate) fn of(net: IpNet) -> Self {
        let (first, last) = (number(net.network()), number(net.broadcast()));
        match net {
            // The network's own address and its broadcast address (RFC 3021: not of a /31).
            IpNet::V4(net) if net.prefix_len() < 31 => {
                Self { ipv6: false, first: first + 1, last: last - 1 }
            }
            net => Self { ipv6: matches!(net, IpNet::V6(_)), first, last },
        }
    }

    /// The same addresses, in order and each once.
    pub(crate) fn merged(mut ranges: Vec<Self>) -> Vec<Self> {
        ranges.sort_unstable();
        let mut merged: Vec<Self> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last)
                    if last.ipv6 == range.ipv6 && range.first <= last.last.saturating_add(1) =>
                {
                    last.last = last.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        merged
    }

    fn len(&self) -> u64 {
        let length = self.last - self.first;
        u64::try_from(length).map_or(ADDRESSES_MAX, |length| length.saturating_add(1))
    }

    fn address(&self, place: u64) -> IpAddr {
        let number = self.first + u128::from(place);
        if self.ipv6 { IpAddr::V6(number.into()) } else { IpAddr::V4((number as u32).into()) }
    }
}

/// Whether all of them have a number: what lies beyond is left out.
pub(crate) fn can_number(ranges: &[Range]) -> bool {
    ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.len())) <= ADDRESSES_MAX
}

/// Addresses that are counted through from 0, and found by themselves again.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// With the number of each range's first address; in order.
    ranges: Vec<(Range, u64)>,
    len: u64,
}

impl Sources {
    /// From ranges in order and without overlap, at least one.
    pub(crate) fn new(ranges: Vec<Range>) -> Self {
        let mut len = 0;
        let ranges = ranges
            .into_iter()
            .map(|range| {
                let first = len;
                len += range.len().min(ADDRESSES_MAX - len);
                (range, first)
            })
            .collect();
        Self { ranges, len }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The address of a number below [`Sources::len`].
    #[inline]
    pub(crate) fn address(&self, number: u64) -> IpAddr {
        let place = self.ranges.partition_point(|(_, first)| *first <= number) - 1;
        let (range, first) = self.ranges[place];
        range.address(number - first)
    }

    /// The number of an address.
    #[inline]
    pub(crate) fn number(&self, address: IpAddr) -> Option<u64> {
        let wanted = number(address);
        let place = self.ranges.partition_point(|(range, _)| range.first <= wanted);
        let (range, first) = self.ranges.get(place.checked_sub(1)?)?;
        let within = wanted <= range.last && range.ipv6 == address.is_ipv6();
        let number = first + u64::try_from(wanted - range.first).ok()?;
        (within && number < self.len).then_some(number)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(nets: &[&str]) -> Sources {
        let ranges = nets.iter().map(|net| Range::of(net.parse().unwrap())).collect();
        Sources::new(Range::merged(ranges))
    }

    #[test]
    fn each_address_has_one_number() {
        let few = sources(&["10.0.1.0/30", "10.0.0.9/32", "10.0.0.8/32", "10.0.0.9/32"]);
        let all: Vec<String> = (0..few.len()).map(|n| few.address(n).to_string()).collect();
        assert_eq!(all, ["10.0.0.8", "10.0.0.9", "10.0.1.1", "10.0.1.2"]);
        for number in 0..few.len() {
            assert_eq!(few.number(few.address(number)), Some(number));
        }
        for stranger in ["10.0.0.7", "10.0.0.10", "10.0.1.0", "10.0.1.3", "::a00:9", "255.0.0.1"] {
            assert_eq!(few.number(stranger.parse().unwrap()), None, "{stranger}");
        }
        assert_eq!(sources(&["10.128.0.0/16"]).len(), 65_534);
    }

    #[test]
    fn ipv6_prefixes_are_cut_where_numbers_end() {
        let many = sources(&["fd00::/64"]);
        assert_eq!(many.len(), ADDRESSES_MAX);
        assert_eq!(many.address(5).to_string(), "fd00::5");
        assert_eq!(many.number("fd00::1:0:0".parse().unwrap()), None);
        let last = many.address(ADDRESSES_MAX - 1);
        assert_eq!(many.number(last), Some(ADDRESSES_MAX - 1));
    }
}
