// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked: SYNs that are named, or those of a capture.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tidegate_datapath::interfaces::Interface;

use crate::capture::{self, Packet};
use crate::failure::{Failure, Result};

/// The most SYNs of a capture that are explained.
const SYNS_MOST: usize = 100;

/// A SYN to be explained.
#[derive(Args)]
pub struct Asked {
    /// The client's address and port, such as 192.0.2.9:40000.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "to")]
    from: Option<String>,
    /// The server's.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "from")]
    to: Option<String>,
    /// The SYNs of a capture instead, the first hundred: pcap or pcapng.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to"])]
    pub(super) pcap: Option<PathBuf>,
    /// The interface that it comes in at [default: the one that leads to the client].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// The text of an address and port without its zone, such as the `eth1` of `[fe80::9%eth1]:40000`, and that.
fn without_zone(text: &str) -> (String, Option<&str>) {
    if let Some((address, rest)) = text.split_once('%')
        && let Some((zone, port)) = rest.split_once(']')
    {
        return (format!("{address}]{port}"), Some(zone));
    }
    (text.to_owned(), None)
}

fn endpoint(option: &str, text: &str) -> Result<SocketAddr> {
    without_zone(text).0.parse().map_err(|_| {
        Failure::argument(
            format!("--{option} \"{text}\" is no address and port"),
            "write one like 192.0.2.9:40000 or [2001:db8::9]:40000",
        )
    })
}

impl Asked {
    /// The interface that is named, or that an address has as its zone: by its name or its index.
    pub(super) fn named(&self, interfaces: &[Interface]) -> Option<String> {
        let by_zone = || {
            let ends = [&self.from, &self.to].into_iter().flatten();
            let zone = ends.filter_map(|end| without_zone(end).1).next()?;
            let by_index = interfaces.iter().find(|i| zone.parse() == Ok(i.index));
            Some(by_index.map_or(zone, |i| &i.name).to_owned())
        };
        self.interface.clone().or_else(by_zone)
    }

    pub(super) fn packets(&self) -> Result<Vec<Packet>> {
        if let Some(path) = &self.pcap {
            return capture::syns(path, SYNS_MOST);
        }
        let (Some(from), Some(to)) = (&self.from, &self.to) else {
            return Err(Failure::argument(
                "no SYN is named",
                "give --from ADDRESS:PORT and --to ADDRESS:PORT, or --pcap FILE",
            ));
        };
        let (from, to) = (endpoint("from", from)?, endpoint("to", to)?);
        if from.is_ipv4() != to.is_ipv4() {
            return Err(Failure::argument(
                format!("--from {from} and --to {to} are of two families"),
                "give both as IPv4 or both as IPv6",
            ));
        }
        Ok(vec![Packet::of_linux(from, to)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(from: &str, to: &str) -> Result<Vec<Packet>> {
        let (from, to) = (Some(from.to_owned()), Some(to.to_owned()));
        Asked { from, to, pcap: None, interface: None, json: false }.packets()
    }

    #[test]
    fn a_question_that_makes_no_sense_is_answered_in_a_line() {
        let told = |from, to| packets(from, to).unwrap_err().to_string();
        let fix = "; write one like 192.0.2.9:40000 or [2001:db8::9]:40000";
        let to = "192.0.2.1:443";
        for wrong in [
            "192.0.2.9",
            "192.0.2.999:1",
            "[2001:db8::9]",
            "host:80",
            "192.0.2.9:70000",
            "192.0.2.9%eth0:80",
            "[fe80::9]%eth0:80",
            "[192.0.2.9%eth0]:80",
        ] {
            assert_eq!(told(wrong, to), format!("--from \"{wrong}\" is no address and port{fix}"));
            assert_eq!(told(to, wrong), format!("--to \"{wrong}\" is no address and port{fix}"));
        }
        assert_eq!(
            told("[2001:db8::9]:40000", to),
            "--from [2001:db8::9]:40000 and --to 192.0.2.1:443 are of two families; \
             give both as IPv4 or both as IPv6"
        );
    }

    #[test]
    fn a_zone_names_the_interface_that_the_syn_comes_in_at() {
        let interface =
            |index, name: &str| Interface { index, name: name.into(), ..Default::default() };
        let all = [interface(3, "eth1"), interface(4, "eth2")];
        let asked = |from: &str, interface: Option<&str>| {
            let (from, to) = (Some(from.to_owned()), Some("[fe80::1]:443".to_owned()));
            let interface = interface.map(str::to_owned);
            Asked { from, to, pcap: None, interface, json: false }
        };
        for (zone, named) in [("%eth1", Some("eth1")), ("%4", Some("eth2")), ("", None)] {
            let asked = asked(&format!("[fe80::9{zone}]:40000"), None);
            assert_eq!(asked.named(&all).as_deref(), named);
            let from = asked.packets().unwrap()[0].syn.from;
            assert_eq!(from.to_string(), "[fe80::9]:40000");
        }
        // One that is not here is told of by its name.
        assert_eq!(asked("[fe80::9%7]:1", None).named(&all).as_deref(), Some("7"));
        assert_eq!(asked("[fe80::9%7]:1", Some("eth2")).named(&all).as_deref(), Some("eth2"));
        let (from, to) = (Some("[2001:db8::9]:1".into()), Some("[fe80::1%3]:443".into()));
        let asked = Asked { from, to, pcap: None, interface: None, json: false };
        assert_eq!(asked.named(&all).as_deref(), Some("eth1"));
    }

    #[test]
    fn a_syn_of_ours_has_a_number_of_its_own() {
        let isn = || packets("192.0.2.9:40000", "192.0.2.1:443").unwrap()[0].syn.isn;
        let isns: std::collections::BTreeSet<u32> = (0..16).map(|_| isn()).collect();
        assert!(isns.len() > 8, "{isns:?}");
    }
}
