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

/// Whether addresses that packets have are of a network, all that its length says; `write` is how the
/// one that was meant is written where it stands. What is wrong goes on behind "is no network".
pub fn network(network: &Network, write: impl Fn(&str) -> String) -> Result<(), Wrong> {
    if let Some(v4) = mapped(network) {
        let fix = format!("write \"{}\"", write(&v4.to_string()));
        return Err((", but IPv4 in the form of IPv6, which packets do not have".to_owned(), fix));
    }
    if *network == Network::from(network.address) && network.address.is_unspecified() {
        let every = Network { bits: 0, ..*network };
        let fix = format!("write \"{}\" for every address", write(&every.to_string()));
        return Err((", but an address that no packet has".to_owned(), fix));
    }
    let meant = network.whole();
    if meant == *network {
        return Ok(());
    }
    // It may be the network that was meant, or that address alone.
    let (meant, address) = (write(&meant.to_string()), write(&network.address.to_string()));
    let fix = format!("write \"{meant}\", or \"{address}\" for that address alone");
    Err((", but an address in one".to_owned(), fix))
}

/// The IPv4 network of one in the form of IPv6 (RFC 4291, 2.5.5.2).
fn mapped(network: &Network) -> Option<Network> {
    let IpAddr::V6(address) = network.address else { return None };
    let bits = network.bits.checked_sub(96)?;
    Some(Network { address: address.to_ipv4_mapped()?.into(), bits }.whole())
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
    fn only_a_network_that_packets_come_from_can_be_named() {
        let told = |text: &str| {
            let told = network(&text.parse().unwrap(), |meant| format!("{meant}!"));
            told.map_err(|(what, fix)| format!("{what}; {fix}"))
        };
        for whole in ["192.0.2.0/24", "192.0.2.1", "0.0.0.0/0", "::/0", "2001:db8::1", "::1"] {
            assert_eq!(told(whole), Ok(()));
        }
        for (text, network, address) in [
            ("192.0.2.1/24", "192.0.2.0/24", "192.0.2.1"),
            ("192.0.2.129/25", "192.0.2.128/25", "192.0.2.129"),
            ("1.2.3.4/0", "0.0.0.0/0", "1.2.3.4"),
            ("2001:db8::1/32", "2001:db8::/32", "2001:db8::1"),
            ("::1/0", "::/0", "::1"),
        ] {
            let or = format!("write \"{network}!\", or \"{address}!\" for that address alone");
            assert_eq!(told(text), Err(format!(", but an address in one; {or}")));
        }
        for (text, every) in [("0.0.0.0", "0.0.0.0/0"), ("::", "::/0"), ("::/128", "::/0")] {
            let fix = format!("write \"{every}!\" for every address");
            assert_eq!(told(text), Err(format!(", but an address that no packet has; {fix}")));
        }
        for (text, meant) in [
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.9/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.9", "192.0.2.9/32"),
        ] {
            let told = told(text).unwrap_err();
            assert!(told.ends_with(&format!("packets do not have; write \"{meant}!\"")), "{told}");
        }
    }
}
