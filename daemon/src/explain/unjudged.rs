// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why no guard decided.

use std::net::{IpAddr, SocketAddr};

use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::raw::*;
use tidegate_datapath::rehearsal::{Found, Syn};
use tidegate_datapath::{local_routes, sockets};

use super::Stage;
use crate::failure::Result;
use crate::{host, plan};

impl Stage {
    /// What listens on this address and port.
    fn listening(&self, syn: &Syn) -> Result<Vec<tg_listener_row>> {
        let (address, port) = (Some(syn.to.ip()), syn.to.port());
        let of_this = Guarded { address, port, ..Guarded::default() };
        let rows = sockets::listeners(self.rehearsal.readers())?;
        Ok(rows.into_iter().filter(|row| of_this.covers(row)).collect())
    }

    /// Listening sockets that may take a SYN to this address and port which comes in here. In a VRF those take none
    /// that are bound to no interface, as a rule.
    pub(super) fn takers(&self, syn: &Syn, interface: &Interface) -> Result<Vec<tg_listener_row>> {
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
    pub(super) fn unjudged(
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

/// Whether what comes so by this interface is a martian.
fn is_strange(end: IpAddr, interface: &Interface) -> bool {
    end.is_loopback() && !interface.loopback
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
