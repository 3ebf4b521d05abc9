// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses as the programs have them: a kind, and four words.

use std::net::IpAddr;

/// An address as the programs compare it: kind 0 (any), 4 or 6, and words in network order.
pub(crate) fn words(address: Option<IpAddr>) -> (u32, [u32; 4]) {
    match address {
        None => (0, [0; 4]),
        Some(IpAddr::V4(a)) => (4, [u32::from_ne_bytes(a.octets()), 0, 0, 0]),
        Some(IpAddr::V6(a)) => {
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(a.octets().chunks_exact(4)) {
                *word = u32::from_ne_bytes(bytes.try_into().expect("chunks of four"));
            }
            (6, words)
        }
    }
}

/// The address that four words and a kind stand for; none where the kind is any.
pub fn of(kind: u32, words: &[u32; 4]) -> Option<IpAddr> {
    matches!(kind, 4 | 6).then(|| either(kind == 6, words))
}

/// The address that four words stand for, IPv6 or IPv4.
pub(crate) fn either(is_ipv6: bool, words: &[u32; 4]) -> IpAddr {
    let mut octets = [0; 16];
    for (bytes, word) in octets.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    match is_ipv6 {
        true => IpAddr::from(octets),
        false => IpAddr::from([octets[0], octets[1], octets[2], octets[3]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_through_words() {
        for address in ["192.0.2.7", "2001:db8::1:2"] {
            let address: Option<IpAddr> = Some(address.parse().unwrap());
            let (kind, words) = words(address);
            assert_eq!(of(kind, &words), address);
        }
        assert_eq!(of(0, &[0; 4]), None);
    }
}
