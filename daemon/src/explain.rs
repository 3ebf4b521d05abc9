// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate explain`: what would become of a SYN that came in now, and why. The guard's own
//! programs answer, run on copies of what they write: nothing changes by asking.

mod answer;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use tidegate_datapath::Error;
use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::interfaces::{self, Interface};
use tidegate_datapath::pins::Pins;
use tidegate_datapath::raw::*;
use tidegate_datapath::rehearsal::{Entry, Found, Rehearsal, Syn};
use tidegate_datapath::{by_socket, counters, local_routes, route, sockets};
use tidegate_policy::names::VERDICTS;
use tidegate_policy::raw::*;

use self::answer::{Explained, GuardMet, ListenerMet, Share, names, notes, text};
use crate::capture::{self, Packet};
use crate::failure::{Failure, Result};
use crate::status::{OverloadStatus, Queue};
use crate::{host, mounts, outcome, output, plan};

/// The most SYNs of a capture that are explained.
const SYNS_MOST: usize = 100;
/// What to do where nobody can tell.
const NAME_IT: &str = "name the interface that the SYN comes in at with --interface";
/// Where chance has a part, so many tries show the shares.
const TRIES: u32 = 1000;

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
    pcap: Option<PathBuf>,
    /// The interface that it comes in at [default: the one that leads to the client].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
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
    fn named(&self, interfaces: &[Interface]) -> Option<String> {
        let by_zone = || {
            let ends = [&self.from, &self.to].into_iter().flatten();
            let zone = ends.filter_map(|end| without_zone(end).1).next()?;
            let by_index = interfaces.iter().find(|i| zone.parse() == Ok(i.index));
            Some(by_index.map_or(zone, |i| &i.name).to_owned())
        };
        self.interface.clone().or_else(by_zone)
    }

    fn packets(&self) -> Result<Vec<Packet>> {
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

/// Of a guard that is there in part some pin is missing.
fn in_part(error: Error) -> Failure {
    match error {
        Error::Pin { source, .. } if source.kind() == io::ErrorKind::NotFound => Failure::argument(
            "the guard is just starting, or its start was cut short",
            "ask again; where it stays so, `tidegate run` or `tidegate stop`",
        ),
        other => other.into(),
    }
}

/// Explains what is asked.
pub fn run(asked: &Asked) -> Result<()> {
    let packets = asked.packets()?;
    host::require_capabilities()?;
    let pins = Pins::here()?;
    let Some(rehearsal) = Rehearsal::of(pins.clone()).map_err(in_part)? else {
        mounts::require_those_of_the_daemon(&pins)?;
        return Err(Failure::argument("no guard stands here", "start one with `tidegate run`"));
    };
    let interfaces = interfaces::list()?;
    let named = asked.named(&interfaces);
    let mut stage = Stage { rehearsal, interfaces, named };
    let is_ours = asked.pcap.is_none();
    let explained: Vec<Explained> =
        packets.iter().map(|packet| stage.explain(packet, is_ours)).collect::<Result<_>>()?;
    if !asked.json {
        let texts: Vec<String> = explained.iter().map(text).collect();
        output::print(&texts.join("\n"))
    } else if is_ours {
        output::print_json(&explained[0])
    } else {
        output::print_json(&explained)
    }
}

/// Everything that a SYN is explained with.
struct Stage {
    rehearsal: Rehearsal,
    interfaces: Vec<Interface>,
    named: Option<String>,
}

impl Stage {
    /// An interface has it, in a VRF's table perhaps; or a network of such is routed here.
    fn is_own(&self, address: IpAddr) -> Result<bool> {
        let stands = self.interfaces.iter().any(|i| i.addresses.contains(&address));
        let asked = |source| Error::Read { what: "the kernel's routes".to_owned(), source };
        Ok(stands || route::is_local(address).map_err(asked)?)
    }

    /// Where the SYN comes in: by the interface that is named, or that leads to its client; or by one
    /// below that, or the bridge that it is a port of, where it is judged.
    fn interface(&self, syn: &Syn) -> Result<Interface> {
        let met = match &self.named {
            Some(name) => plan::named(name, &self.interfaces)?,
            None => self.towards(syn)?,
        };
        for interface in plan::up(met, &self.interfaces) {
            let mut judging = None;
            for below in plan::down(interface, &self.interfaces) {
                if self.rehearsal.judges_at(below)? {
                    judging = Some(below);
                }
            }
            if let Some(judging) = judging {
                return Ok(judging.clone());
            }
        }
        Ok(met.clone())
    }

    fn towards(&self, syn: &Syn) -> Result<&Interface> {
        let (client, own) = (syn.from.ip(), syn.to.ip());
        if is_on_a_link(client) && self.links() > 1 {
            return Err(Failure::argument(
                format!("{client} may be on any link of this host's"),
                NAME_IT,
            ));
        }
        let from = self.is_own(own)?.then_some(own);
        // The kernel takes no source of a network that another table than `local` routes here.
        let index =
            route::interface_to(client, from).or_else(|_| route::interface_to(client, None));
        let index = index.map_err(|error| {
            Failure::argument(format!("this host has no route to {client} ({error})"), NAME_IT)
        })?;
        let found = self.interfaces.iter().find(|i| Some(i.index) == index);
        found.ok_or_else(|| {
            Failure::argument(format!("no interface that is up leads to {client}"), NAME_IT)
        })
    }

    /// Interfaces behind which there may be clients with link-local addresses. The kernel's route to one is that of any of
    /// these.
    fn links(&self) -> usize {
        let is_one = |i: &&Interface| i.addresses.iter().any(|address| is_on_a_link(*address));
        self.interfaces.iter().filter(is_one).count()
    }

    /// `is_ours`: nobody sent it, and another one has another initial sequence number.
    fn explain(&mut self, packet: &Packet, is_ours: bool) -> Result<Explained> {
        let syn = packet.syn;
        let met = configuration::covering(self.rehearsal.guards(), syn.to).cloned();
        let mut explained = Explained::of(&syn);
        explained.guard = met.as_ref().map(|(_, guarded)| GuardMet::of(guarded));
        let interface = match self.interface(&syn) {
            // Of a capture, which may be another host's, the others are explained all the same.
            Err(failure @ Failure::Argument { .. }) if !is_ours && self.named.is_none() => {
                explained.words = format!("not known: {failure}");
                return Ok(explained);
            }
            found => found?,
        };
        let found = self.ask(packet, &interface)?;
        explained.interface = Some(interface.name.clone());
        explained.verdict = Some(VERDICTS[TG_PASS as usize]);
        match (found, &met) {
            (Found::Judged { entry, slot, decision }, Some((index, guarded))) => {
                explained.judged_at = Some(if entry == Entry::Driver { "driver" } else { "ip" });
                let (verdict, reason) = names(decision);
                (explained.verdict, explained.reason) = (Some(verdict), Some(reason));
                explained.words = outcome::words(decision);
                explained.listener = self.listener(*index, guarded, &syn, &interface, slot)?;
                let policy = self.rehearsal.shed_policy_now(*index, guarded)?;
                explained.notes = notes(guarded, policy, decision, is_ours);
                if is_ours && policy == TG_SBPD || self.rehearsal.draws_lots(*index, guarded)? {
                    explained.shares = self.shares(packet, &interface, is_ours)?;
                }
            }
            (Found::Held, _) => {
                explained.verdict = Some(VERDICTS[TG_DROP as usize]);
                explained.words =
                    "dropped in silence: these addresses and ports are held in TIME-WAIT here"
                        .to_owned();
                if is_ours {
                    explained.notes.push(
                        "its time stamp is made up: one that goes on from the last connection's passes"
                            .to_owned(),
                    );
                }
            }
            _ => explained.words = self.unjudged(&syn, &interface, found, met.as_ref(), is_ours)?,
        }
        Ok(explained)
    }

    fn ask(&mut self, packet: &Packet, interface: &Interface) -> Result<Found> {
        let frame = packet.at(interfaces::hardware_address(&interface.name));
        self.rehearsal.ask(&packet.syn, interface, &frame).map_err(in_part)
    }

    /// What becomes of many such SYNs: most frequent first.
    fn shares(
        &mut self,
        packet: &Packet,
        interface: &Interface,
        is_ours: bool,
    ) -> Result<Vec<Share>> {
        let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for _ in 0..TRIES {
            let found = if is_ours {
                self.ask(&Packet::of_linux(packet.syn.from, packet.syn.to), interface)?
            } else {
                self.ask(packet, interface)?
            };
            if let Found::Judged { decision, .. } = found {
                *counts.entry((decision.verdict, decision.reason)).or_default() += 1;
            }
        }
        let mut shares: Vec<Share> = counts
            .into_iter()
            .map(|((verdict, reason), count)| {
                let decision = tg_decision { verdict, reason };
                let share = f64::from(count) / f64::from(TRIES);
                let (verdict, reason) = names(decision);
                Share { share, verdict, reason, words: outcome::words(decision) }
            })
            .collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(shares)
    }

    /// The listening socket behind a counter slot; one that the daemon has not seen yet is the
    /// only one that takes such SYNs.
    fn listener(
        &self,
        index: u32,
        guarded: &Guarded,
        syn: &Syn,
        interface: &Interface,
        slot: u32,
    ) -> Result<Option<ListenerMet>> {
        // Another host's gets it, whatever listens on this port here.
        if guarded.is_path {
            return Ok(None);
        }
        let slots = counters::slots(self.rehearsal.live());
        let cookie = slots.iter().find(|(owner, at)| owner.0 == index && **at == slot);
        let rows = self.takers(syn, interface)?;
        let row = match cookie {
            Some(((_, cookie), _)) => rows.iter().find(|row| row.socket_cookie == *cookie),
            None => rows.first().filter(|_| rows.len() == 1),
        };
        let Some(row) = row else { return Ok(None) };
        let overload = match guarded.rules.is_auto {
            0 => None,
            _ => Some(OverloadStatus::of(&by_socket::read(self.rehearsal.live(), slot)?)),
        };
        Ok(Some(ListenerMet {
            address: SocketAddr::new(row.address(), row.port as u16).to_string(),
            listen_queue: Queue { length: row.listen_len, limit: row.listen_max },
            syn_queue: Queue { length: row.syn_len, limit: row.listen_max },
            overload,
        }))
    }

    /// What listens on this address and port.
    fn listening(&self, syn: &Syn) -> Result<Vec<tg_listener_row>> {
        let (address, port) = (Some(syn.to.ip()), syn.to.port());
        let of_this = Guarded { address, port, ..Guarded::default() };
        let rows = sockets::listeners(self.rehearsal.readers())?;
        Ok(rows.into_iter().filter(|row| of_this.covers(row)).collect())
    }

    /// Listening sockets that may take a SYN to this address and port which comes in here. In a VRF those take none
    /// that are bound to no interface, as a rule.
    fn takers(&self, syn: &Syn, interface: &Interface) -> Result<Vec<tg_listener_row>> {
        let takes_any =
            interface.vrf.is_none() || host::sysctl("net/ipv4/tcp_l3mdev_accept") == Some(1);
        let takes = |row: &tg_listener_row| {
            (takes_any || row.bound_ifindex != 0)
                && comes_to(interface, row.bound_ifindex, &self.interfaces)
        };
        Ok(self.listening(syn)?.into_iter().filter(takes).collect())
    }

    /// The VRF of an interface, where only what is bound to that takes a SYN which comes in here.
    fn vrf_alone(&self, syn: &Syn, interface: &Interface) -> Result<Option<&Interface>> {
        if interface.vrf.is_none() || !self.takers(syn, interface)?.is_empty() {
            return Ok(None);
        }
        let rows = self.listening(syn)?;
        let mut vrfs = rows.iter().filter_map(|row| plan::vrf_of(row, &self.interfaces));
        Ok(vrfs.find(|vrf| interface.vrf == Some(vrf.index)))
    }

    /// Why no guard decided.
    fn unjudged(
        &self,
        syn: &Syn,
        interface: &Interface,
        found: Found,
        met: Option<&(u32, Guarded)>,
        is_ours: bool,
    ) -> Result<String> {
        let (from, to) = (syn.from.ip(), syn.to);
        let why = if met.is_none() {
            format!("no guard stands for {to}")
        } else if found == Found::Unwatched {
            format!("no program of the guard stands at {}", interface.name)
        } else if !is_a_clients(from) {
            format!("no connection comes from {from}")
        } else if let Some(own) =
            [from, to.ip()].into_iter().find(|end| is_strange(*end, interface))
        {
            format!(
                "{own} is of loopback alone, and no guard judges what comes so by {}; but for \
                 route_localnet the kernel drops it",
                interface.name
            )
        } else if !self.is_own(to.ip())? {
            format!("{} is no address of this host, which at most forwards it", to.ip())
        } else if let Some(vrf) = self.vrf_alone(syn, interface)? {
            format!(
                "what listens on {to} is bound to the VRF {}, where no guard finds it",
                vrf.name
            )
        } else {
            self.unfound(syn, interface, is_ours)?
        };
        Ok(format!("passed to the kernel, which alone decides: {why}"))
    }

    /// Why no guard decided of a SYN to the host's own address that came where one stands: the programs may know
    /// less of the host than is seen here.
    fn unfound(&self, syn: &Syn, interface: &Interface, is_ours: bool) -> Result<String> {
        let to = syn.to;
        let takers = self.takers(syn, interface)?;
        if let Some(above) = bound_above(&takers, interface, &self.interfaces) {
            return Ok(format!(
                "what listens on {to} is bound to {}, which no guard at {} finds; name {0} in its place in `interfaces`",
                above.name, interface.name
            ));
        }
        if !takers.is_empty() && !local_routes::takes(self.rehearsal.live(), to.ip())? {
            return Ok(format!(
                "no daemon has told the programs that {} is this host's; `tidegate run` does",
                to.ip()
            ));
        }
        Ok(why_not(to, &interface.name, &takers, is_ours))
    }
}

/// The interface above this one that whatever takes a SYN which is judged here is bound to. The kernel's look-up for
/// BPF goes by the interface where it is asked.
fn bound_above<'a>(
    takers: &[tg_listener_row],
    interface: &Interface,
    interfaces: &'a [Interface],
) -> Option<&'a Interface> {
    if takers.iter().any(|row| [0, interface.index].contains(&row.bound_ifindex)) {
        return None;
    }
    takers.iter().find_map(|row| interfaces.iter().find(|i| i.index == row.bound_ifindex))
}

/// Why no guard decided, where the programs find what is seen here.
fn why_not(to: SocketAddr, interface: &str, takers: &[tg_listener_row], is_ours: bool) -> String {
    if takers.is_empty() {
        return format!("nothing listens on {to} at {interface}, and the answer is RST");
    }
    if takers.iter().all(|row| row.chosen != 0) {
        return format!("a program of the application's chooses among those that listen on {to}");
    }
    let stands =
        "a connection between these addresses and ports stands already, or stood a moment ago";
    match is_ours {
        true => stands.to_owned(),
        false => format!("{stands}; or it has headers that no guard looks behind"),
    }
}

/// Whether what comes in at this interface may come to a socket that is bound to the one of this index; 0: to
/// any. What a VRF's may take is passed to the kernel, for no guard finds that.
fn comes_to(interface: &Interface, bound: u32, interfaces: &[Interface]) -> bool {
    let is_above = |i: &Interface| {
        plan::up(interface, interfaces).any(|above| above.index == i.index)
            || plan::down(i, interfaces).any(|below| below.index == interface.index)
    };
    bound == 0 || interfaces.iter().any(|i| i.index == bound && is_above(i))
}

/// Whether a connection may come from this address, by `tg_unicast()`; else no program of ours judges it.
fn is_a_clients(from: IpAddr) -> bool {
    match from {
        IpAddr::V4(v4) => matches!(v4.octets()[0], 1..=223 | 240..) && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified(),
    }
}

/// Whether an address is of IPv6's that every link has for itself.
fn is_on_a_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Whether what comes so by this interface is a martian.
fn is_strange(end: IpAddr, interface: &Interface) -> bool {
    end.is_loopback() && !interface.loopback
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
    fn a_socket_of_another_interface_does_not_take_it() {
        let named =
            |index, name: &str| Interface { index, name: name.into(), ..Default::default() };
        let eth0 = Interface { vrf: Some(4), ..named(1, "eth0") };
        let eth1 = named(2, "eth1");
        let tagged = Interface { below: Some("eth0".to_owned()), ..named(3, "eth0.5") };
        let vrf = Interface { driver: "vrf".to_owned(), ..named(4, "vrf") };
        let port = Interface { master: Some(6), ..named(5, "port") };
        let all = [eth0.clone(), eth1, tagged, vrf, port.clone(), named(6, "bridge")];
        let takes = |at: &Interface| (0..8).filter(|bound| comes_to(at, *bound, &all)).collect();
        assert_eq!((takes(&eth0), takes(&port)), (vec![0, 1, 3], vec![0, 5, 6]));
        // Of these the programs at eth0 find those that are bound to none or to itself.
        let row = |bound_ifindex| tg_listener_row { bound_ifindex, ..Default::default() };
        let above = |bound: &[u32]| {
            let takers: Vec<_> = bound.iter().copied().map(row).collect();
            bound_above(&takers, &eth0, &all).map(|i| i.name.as_str())
        };
        assert_eq!((above(&[3]), above(&[3, 3])), (Some("eth0.5"), Some("eth0.5")));
        assert_eq!([above(&[]), above(&[3, 0]), above(&[1, 3])], [None; 3]);
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

    /// As the programs have it: 240/4 is reserved, but the kernel takes it as any other.
    #[test]
    fn addresses_that_no_connection_comes_from_are_known() {
        let comes = |from: &str| is_a_clients(from.parse().unwrap());
        for from in ["1.0.0.1", "223.255.255.255", "240.0.0.9", "255.255.255.254", "2001:db8::9"] {
            assert!(comes(from), "{from}");
        }
        for from in ["0.0.0.9", "224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1", "::"]
        {
            assert!(!comes(from), "{from}");
        }
    }

    #[test]
    fn a_syn_of_ours_has_a_number_of_its_own() {
        let isn = || packets("192.0.2.9:40000", "192.0.2.1:443").unwrap()[0].syn.isn;
        let isns: std::collections::BTreeSet<u32> = (0..16).map(|_| isn()).collect();
        assert!(isns.len() > 8, "{isns:?}");
    }
}
