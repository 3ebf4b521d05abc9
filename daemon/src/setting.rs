// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that the configuration file and the command line have in common: how each is written
//! there, and what it may be.

use std::net::IpAddr;

use tidegate_datapath::network::Network;

/// What is wrong, and the fix.
pub type Wrong = (String, String);

/// Where a setting was written, and so how it is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// In a file, as `key = "value"`.
    InFile,
    /// On the command line, as `--key value`.
    AsOption,
}

impl Written {
    /// The setting with this value, to be copied as it is.
    pub fn setting(self, key: &str, value: &str) -> String {
        match self {
            Written::InFile => format!("{key} = \"{value}\""),
            Written::AsOption if value.contains(' ') => format!("--{key} \"{value}\""),
            Written::AsOption => format!("--{key} {value}"),
        }
    }

    /// The setting by its name.
    pub fn key(self, key: &str) -> String {
        match self {
            Written::InFile => key.to_owned(),
            Written::AsOption => format!("--{key}"),
        }
    }
}

/// Whether packets to a listener can have this address; it may be left out, but not of a path. A
/// guard of another one would stand and guard nothing.
pub fn address(written: Written, address: IpAddr, is_path: bool) -> Result<(), Wrong> {
    let said = written.setting("address", &address.to_string());
    let own = if is_path {
        "give the one address that the path leads to".to_owned()
    } else {
        format!("leave {} out to guard every address", written.key("address"))
    };
    let canonical = address.to_canonical();
    let is_broadcast = matches!(canonical, IpAddr::V4(v4) if v4.is_broadcast());
    if canonical.is_unspecified() {
        return Err((format!("{said} stands for every address, and no packet is sent to it"), own));
    }
    if canonical.is_multicast() || is_broadcast {
        return Err((format!("{said} is many hosts' address, and no connection goes there"), own));
    }
    if canonical != address {
        let fix = format!("write {}", written.setting("address", &canonical.to_string()));
        return Err((
            format!("{said} is IPv4 in the form of IPv6, which packets do not have"),
            fix,
        ));
    }
    Ok(())
}

/// What to write for a network that has more bits than its length says: it may be the network that
/// was meant, or that address alone.
pub fn network_fix(network: &Network) -> Option<String> {
    let meant = meant(network)?;
    Some(format!("write \"{meant}\", or \"{}\" for that address alone", network.address))
}

fn meant(network: &Network) -> Option<Network> {
    let bits = u32::from(network.bits);
    let address: IpAddr = match network.address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            std::net::Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            std::net::Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    };
    (address != network.address).then_some(Network { address, bits: network.bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_packets_are_sent_to_can_be_guarded() {
        let told = |text: &str, is_path| {
            address(Written::InFile, text.parse().unwrap(), is_path)
                .map_err(|(what, fix)| format!("{what}; {fix}"))
        };
        for good in ["192.0.2.1", "127.0.0.1", "2001:db8::1", "fe80::1", "::1"] {
            assert_eq!(told(good, false), Ok(()));
        }
        for every in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
            assert_eq!(
                told(every, false).unwrap_err(),
                format!(
                    "address = \"{every}\" stands for every address, and no packet is sent to it; \
                     leave address out to guard every address"
                )
            );
            assert!(told(every, true).unwrap_err().ends_with("that the path leads to"));
        }
        for many in ["224.0.0.1", "255.255.255.255", "ff02::1"] {
            let told = told(many, false).unwrap_err();
            assert!(told.contains("many hosts' address"), "{told}");
        }
        assert!(
            told("::ffff:192.0.2.1", true)
                .unwrap_err()
                .ends_with("; write address = \"192.0.2.1\"")
        );
    }

    #[test]
    fn a_setting_is_told_as_it_was_written() {
        assert_eq!(Written::InFile.setting("fin", "rst-fin"), "fin = \"rst-fin\"");
        assert_eq!(Written::AsOption.setting("fin", "rst-fin"), "--fin rst-fin");
        assert_eq!(Written::AsOption.setting("fin", "rst-fin strict"), "--fin \"rst-fin strict\"");
    }

    #[test]
    fn bits_behind_a_networks_length_are_seen() {
        let meant = |text: &str| meant(&text.parse().unwrap()).map(|network| network.to_string());
        for whole in ["192.0.2.0/24", "192.0.2.1", "0.0.0.0/0", "::/0", "2001:db8::1"] {
            assert_eq!(meant(whole), None, "{whole}");
        }
        for (text, network) in [
            ("192.0.2.1/24", "192.0.2.0/24"),
            ("192.0.2.129/25", "192.0.2.128/25"),
            ("1.2.3.4/0", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::1/0", "::/0"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(network), "{text}");
        }
    }
}
