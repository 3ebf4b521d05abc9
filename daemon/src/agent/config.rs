// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom the agent heeds, as an operator writes it.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tidegate_datapath::agent::Destination;
use tidegate_datapath::network::Network;
use tidegate_datapath::raw::TG_OBEYED;
use tidegate_policy::notice::{COME_BACK_MOST, LONGEST};
use toml::Spanned;

use crate::failure::{Failure, Result};
use crate::reader::{self, Reader};
use crate::setting::{self, Wrong};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    destination: Vec<Spanned<Section>>,
}

/// `[[destination]]`: servers whose notices are heeded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    network: Spanned<String>,
    port: Option<Spanned<i64>>,
    longest_s: Option<Spanned<f64>>,
}

/// Destinations that may be named: the map has room for as many again, while others take their place.
const MOST: usize = TG_OBEYED as usize / 2;

fn too_many() -> Wrong {
    (format!("there are more than {MOST} destinations"), "name fewer, larger networks".to_owned())
}

fn longest(seconds: f64) -> Option<Duration> {
    let bounds = 0.01..=COME_BACK_MOST.as_secs_f64();
    bounds.contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

pub fn longest_fix() -> String {
    format!("give seconds from 0.01 to {}", COME_BACK_MOST.as_secs_f64())
}

/// `NETWORK` or `NETWORK:PORT`; an IPv6 network with a port stands in brackets.
fn parse(text: &str) -> Option<(Network, Option<u16>)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0).map(Some);
    if let Some((network, behind)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let port = if behind.is_empty() { None } else { port(behind.strip_prefix(':')?)? };
        let network: Network = network.parse().ok()?;
        return network.address.is_ipv6().then_some((network, port));
    }
    match text.split_once(':') {
        Some((network, rest)) if !rest.contains(':') => Some((network.parse().ok()?, port(rest)?)),
        _ => Some((text.parse().ok()?, None)),
    }
}

/// The destinations of the command line.
pub fn destinations(texts: &[String], longest_s: Option<f64>) -> Result<Vec<Destination>> {
    if texts.len() > MOST {
        let (what, fix) = too_many();
        return Err(Failure::argument(what, fix));
    }
    texts.iter().map(|text| destination(text, longest_s)).collect()
}

fn destination(text: &str, longest_s: Option<f64>) -> Result<Destination> {
    let (network, port) = parse(text).ok_or_else(|| {
        Failure::argument(
            format!("--destination {text} is no network with or without a port"),
            "write one like 192.0.2.0/24, 192.0.2.7:443 or [2001:db8::/32]:443",
        )
    })?;
    let write = |meant: &str| match port {
        Some(port) if meant.contains(':') => format!("[{meant}]:{port}"),
        Some(port) => format!("{meant}:{port}"),
        None => meant.to_owned(),
    };
    setting::network(&network, write).map_err(|(what, fix)| {
        Failure::argument(format!("--destination {text} is no network{what}"), fix)
    })?;
    let longest = longest_s.map_or(Some(LONGEST), longest).ok_or_else(|| {
        Failure::argument(
            format!("--longest-s {} is out of range", longest_s.unwrap_or_default()),
            longest_fix(),
        )
    })?;
    Ok(Destination { network, port, longest })
}

impl Reader<'_> {
    fn heeded(&self, section: &Section) -> Result<Destination> {
        let wrong = |text: &str| format!("network = \"{text}\" is no network");
        let network = self.network(&section.network, wrong)?;
        let port = match &section.port {
            Some(port) => Some(self.number("port", port, 1, 65535)? as u16),
            None => None,
        };
        let longest = match &section.longest_s {
            Some(seconds) => longest(*seconds.get_ref()).ok_or_else(|| {
                self.wrong(
                    seconds.span(),
                    format!("longest_s = {} is out of range", seconds.get_ref()),
                    longest_fix(),
                )
            })?,
            None => LONGEST,
        };
        Ok(Destination { network, port, longest })
    }
}

/// Reads a configuration file.
pub fn read(path: &Path) -> Result<Vec<Destination>> {
    parse_file(path, &reader::text(path)?)
}

/// Checks a configuration's text; `path` is for what is told of it.
fn parse_file(path: &Path, text: &str) -> Result<Vec<Destination>> {
    let reader = Reader::new(path, text, "notices.md");
    let file: File = reader.file()?;
    let mut destinations: Vec<Destination> = Vec::new();
    for section in &file.destination {
        let one = reader.heeded(section.get_ref())?;
        if destinations.iter().any(|d| d.network == one.network && d.port == one.port) {
            return Err(reader.wrong(
                section.span(),
                format!("the destination {} is named twice", described_place(&one)),
                "remove one of the two [[destination]] sections",
            ));
        }
        destinations.push(one);
        if destinations.len() > MOST {
            let (what, fix) = too_many();
            return Err(reader.wrong(section.span(), what, fix));
        }
    }
    if destinations.is_empty() {
        return Err(reader.wrong(
            0..0,
            "no destination is named",
            "add a [[destination]] section with a network",
        ));
    }
    Ok(destinations)
}

fn described_place(destination: &Destination) -> String {
    let Destination { network, port, .. } = destination;
    port.map_or(network.to_string(), |port| format!("{network} port {port}"))
}

/// A destination, in words.
pub fn described(destination: &Destination) -> String {
    let longest = destination.longest.as_secs_f64();
    format!("{} for {longest} s at most", described_place(destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        parse_file(Path::new("t.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn destinations_are_networks_with_or_without_a_port() {
        for (text, network, port) in [
            ("192.0.2.0/24", "192.0.2.0/24", None),
            ("192.0.2.7:443", "192.0.2.7/32", Some(443)),
            ("10.0.0.0/8:80", "10.0.0.0/8", Some(80)),
            ("2001:db8::/32", "2001:db8::/32", None),
            ("2001:db8::1", "2001:db8::1/128", None),
            ("[2001:db8::/32]:443", "2001:db8::/32", Some(443)),
            ("[::1]", "::1/128", None),
        ] {
            let (found, at) = parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((found.to_string().as_str(), at), (network, port), "{text}");
        }
        assert_eq!(
            destinations(&["192.0.2.7/24:443".to_owned()], None).unwrap_err().to_string(),
            "--destination 192.0.2.7/24:443 is no network, but an address in one; \
             write \"192.0.2.0/24:443\", or \"192.0.2.7:443\" for that address alone"
        );
        for text in [
            "",
            "here",
            "192.0.2.7:0",
            "192.0.2.7:",
            "192.0.2.7:65536",
            "[192.0.2.7]:80",
            "[::1]80",
            "[::1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_names_destinations() {
        let text = "[[destination]]\nnetwork = \"192.0.2.0/24\"\nport = 443\nlongest_s = 2.5\n\
                    [[destination]]\nnetwork = \"::/0\"";
        let read = parse_file(Path::new("t.toml"), text).unwrap();
        let words: Vec<String> = read.iter().map(described).collect();
        assert_eq!(words, ["192.0.2.0/24 port 443 for 2.5 s at most", "::/0 for 60 s at most"]);
        for (text, expected) in [
            ("", "t.toml:1: no destination is named; add a [[destination]]"),
            ("[[destination]]\nnetwork = \"x\"", "t.toml:2: network = \"x\" is no network"),
            ("[[destination]]\nnetwork = \"::/0\"\nport = 0", "t.toml:3: port = 0 is out of range"),
            (
                "[[destination]]\nnetwork = \"::1/64\"",
                "t.toml:2: network = \"::1/64\" is no network, but an address in one; write \"::/64\", or \"::1\" for that address alone",
            ),
            (
                "[[destination]]\nnetwork = \"::/0\"\nlongest_s = 0.0",
                "t.toml:3: longest_s = 0 is out of range; give seconds from 0.01 to 655.35",
            ),
            (
                "[[destination]]\nnetwork = \"::/0\"\n[[destination]]\nnetwork = \"::/0\"",
                "t.toml:3: the destination ::/0 is named twice",
            ),
            ("[[listener]]\nport = 80", "t.toml:1: unknown field `listener`; expected"),
            (
                "[[destination]]\nport = 80",
                "t.toml:1: missing field `network`; see the documentation, notices.md",
            ),
        ] {
            assert!(told(text).starts_with(expected), "{}", told(text));
        }
    }

    #[test]
    fn more_destinations_than_the_kernel_is_given_room_for_are_refused() {
        let networks = |count: usize| (0..count).map(|i| format!("10.{}.{}.0/24", i >> 8, i & 255));
        let file = |count: usize| {
            let section = |network: String| format!("[[destination]]\nnetwork = \"{network}\"\n");
            parse_file(Path::new("t.toml"), &networks(count).map(section).collect::<String>())
        };
        let line = |count: usize| destinations(&networks(count).collect::<Vec<_>>(), None);
        assert_eq!((file(512).unwrap().len(), line(512).unwrap().len()), (512, 512));
        let said = "there are more than 512 destinations; name fewer, larger networks";
        assert_eq!(file(513).unwrap_err().to_string(), format!("t.toml:1025: {said}"));
        assert_eq!(line(513).unwrap_err().to_string(), said);
    }
}
