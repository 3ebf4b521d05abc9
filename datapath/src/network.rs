// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network: an address and how many of its bits count.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network, such as `192.0.2.0/24`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// An address of it.
    pub address: IpAddr,
    /// The bits that every address of it has in common.
    pub bits: u8,
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no network: write one like \"192.0.2.0/24\" or \"2001:db8::/32\"")]
pub struct NoNetwork(String);

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let wrong = || NoNetwork(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let alone = Network::from(address.parse::<IpAddr>().map_err(|_| wrong())?);
        let bits = bits.map_or(Ok(alone.bits), str::parse).map_err(|_| wrong())?;
        if bits > alone.bits { Err(wrong()) } else { Ok(Network { bits, ..alone }) }
    }
}

impl From<IpAddr> for Network {
    /// This address alone.
    fn from(address: IpAddr) -> Self {
        Network { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl Network {
    /// The same network by its first address: that has no bits beyond those which count.
    #[must_use]
    pub fn whole(&self) -> Self {
        let bits = u32::from(self.bits);
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                Ipv6Addr::from_bits(v6.to_bits() & mask).into()
            }
        };
        Network { address, ..*self }
    }

    /// Whether an address is of it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let apart = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4() && apart.leading_zeros() >= u32::from(self.bits)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_has_its_bits() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        for (network, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.129/25", "192.0.2.128", "192.0.2.127"),
            ("192.0.2.1/32", "192.0.2.1", "192.0.2.0"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "ffff::", "0.0.0.0"),
        ] {
            assert!(contains(network, inside), "{network} {inside}");
            assert!(!contains(network, outside), "{network} {outside}");
        }
    }

    #[test]
    fn networks_are_read_and_written() {
        for (text, bits) in
            [("192.0.2.0/24", 24), ("10.0.0.1/32", 32), ("2001:db8::/32", 32), ("::/0", 0)]
        {
            let network: Network = text.parse().unwrap();
            assert_eq!((network.bits, network.to_string()), (bits, text.to_owned()));
        }
        assert_eq!("192.0.2.1".parse::<Network>().unwrap().bits, 32);
        for text in ["", "192.0.2.0/33", "2001:db8::/129", "192.0.2.0/", "192.0.2/24", "x/8"] {
            let told = text.parse::<Network>().unwrap_err().to_string();
            assert!(told.starts_with(&format!("\"{text}\" is no network")), "{told}");
        }
    }
}
