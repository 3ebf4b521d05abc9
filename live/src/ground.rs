// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a point is run: namespaces, cables, and who works on which processor.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use tidegate_lab::{ForeignTime, Link, Losses, Namespace, allowed_cpus};
use tidegate_scenarios::{NETWORK_BITS, Network, SERVER, network};

use crate::error::LiveError;

/// The port that the server listens on.
pub(crate) const PORT: u16 = SERVER.port();
/// The gateway to the crowd, as the server sees it.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 87, 0, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const BEHIND_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
/// The crowd's networks, a /24 each: none of their addresses is configured anywhere; a crowd that makes
/// its own packets needs no more than a route.
const CROWD: &str = "10.128.0.0/16";
/// TIME-WAIT blocks that either side may hold: more than come about in a minute.
const TIME_WAITS_MAX: u32 = 4_000_000;
/// Addresses of clients that use this kernel's sockets.
const SOCKET_CLIENTS: u8 = 24;

/// Where clients of the network of this number come from.
pub(crate) fn network_prefix(number: u16) -> IpNet {
    IpNet::new(network(number).into(), NETWORK_BITS).expect("it is no longer than an address")
}

/// Namespaces joined by cables; dropping it ends all of it.
pub(crate) struct Ground {
    /// Where the server is, and what guards it.
    pub server: Namespace,
    /// Where the crowd is.
    pub clients: Namespace,
    /// The processor of the server and of its packets.
    pub server_cpu: usize,
    /// The processor of the crowd.
    pub crowd_cpu: usize,
    /// The interface that the crowd's packets leave by.
    pub crowd_interface: &'static str,
    /// Between them, where there is one.
    pub router: Option<Namespace>,
    cables: Vec<Link>,
}

impl Ground {
    /// Lays it out.
    pub(crate) fn lay(network: Network) -> Result<Self, LiveError> {
        let cpus = allowed_cpus()?;
        // With one processor they share it, and the figures are what they are.
        let (server_cpu, crowd_cpu) = (cpus[0], cpus[cpus.len() - 1]);
        let server = Namespace::new("server")?;
        let clients = Namespace::new("clients")?;
        let (router, cables) = match network {
            Network::Direct => (None, vec![Self::join(&server, &clients, server_cpu, crowd_cpu)?]),
            Network::Routed => {
                let (router, cables) =
                    Self::join_by_router(&server, &clients, server_cpu, crowd_cpu)?;
                (Some(router), cables.into())
            }
        };
        server.sysctl("net.core.somaxconn", 65_535)?;
        // By default a large host keeps 131,072 to 262,144, and drops what comes beyond. Clients that use
        // this kernel's sockets hold some, too.
        for side in [&server, &clients] {
            side.sysctl("net.ipv4.tcp_max_tw_buckets", TIME_WAITS_MAX)?;
        }
        clients.sysctl("net.ipv4.ip_local_port_range", "1024 65535")?;
        clients.sysctl("net.ipv4.tcp_tw_reuse", 1)?;
        Ok(Self {
            server,
            clients,
            server_cpu,
            crowd_cpu,
            crowd_interface: "clients0",
            router,
            cables,
        })
    }

    fn join(
        server: &Namespace,
        clients: &Namespace,
        server_cpu: usize,
        crowd_cpu: usize,
    ) -> Result<Link, LiveError> {
        let cable = Link::between(server, "server0", clients, "clients0")?;
        cable.a().add_address(&format!("{}/16", SERVER.ip()))?;
        cable.b().add_address(&format!("{GATEWAY}/16"))?;
        for host in 1..=SOCKET_CLIENTS {
            cable.b().add_address(&format!("10.87.1.{host}/16"))?;
        }
        cable.up()?;
        // As on two machines: each side's processor does its own side's TCP.
        cable.a().receive_on(server_cpu)?;
        cable.b().receive_on(crowd_cpu)?;
        cable.a().add_route(CROWD, Some(&GATEWAY.to_string()))?;
        Ok(cable)
    }

    /// The router's packets are worked on where the crowd's are: the server's processor is the
    /// server's alone.
    fn join_by_router(
        server: &Namespace,
        clients: &Namespace,
        server_cpu: usize,
        crowd_cpu: usize,
    ) -> Result<(Namespace, [Link; 2]), LiveError> {
        let router = Namespace::new("router")?;
        let near = Link::between(server, "server0", &router, "inner0")?;
        let far = Link::between(&router, "outer0", clients, "clients0")?;
        near.a().add_address(&format!("{}/16", SERVER.ip()))?;
        near.b().add_address(&format!("{GATEWAY}/16"))?;
        far.a().add_address(&format!("{ROUTER}/16"))?;
        far.b().add_address(&format!("{BEHIND_ROUTER}/16"))?;
        for host in 1..=SOCKET_CLIENTS {
            far.b().add_address(&format!("10.88.1.{host}/16"))?;
        }
        near.up()?;
        far.up()?;
        near.a().receive_on(server_cpu)?;
        for end in [near.b(), far.a(), far.b()] {
            end.receive_on(crowd_cpu)?;
        }
        router.sysctl("net.ipv4.ip_forward", 1)?;
        near.a().add_route("default", Some(&GATEWAY.to_string()))?;
        far.a().add_route(CROWD, Some(&BEHIND_ROUTER.to_string()))?;
        far.b().add_route("10.87.0.0/16", Some(&ROUTER.to_string()))?;
        Ok((router, [near, far]))
    }

    /// What each cable has told of packets that were lost for want of room.
    pub(crate) fn losses(&self) -> Result<Vec<Losses>, LiveError> {
        Ok(self.cables.iter().map(Link::losses).collect::<Result<_, _>>()?)
    }

    /// What others have had so far of the processors that are used here.
    pub(crate) fn foreign_time(&self) -> ForeignTime {
        ForeignTime::on(&[self.server_cpu, self.crowd_cpu])
    }

    /// Where the crowd goes.
    pub(crate) fn target(&self) -> SocketAddr {
        SERVER.into()
    }

    /// Where a crowd of no networks comes from that makes its own packets: everywhere, or so many
    /// addresses. 254 of them times 64,512 ports outlast every timer that may still hold a port at the
    /// server.
    pub(crate) fn crowd_sources(&self, addresses: Option<u16>) -> Vec<IpNet> {
        let crowd = network_prefix(0);
        match addresses {
            None => vec![crowd],
            Some(count) => crowd.hosts().take(count.into()).map(IpNet::from).collect(),
        }
    }

    /// Where clients that use this kernel's sockets come from.
    pub(crate) fn socket_sources(&self) -> Vec<IpNet> {
        let network = if self.router.is_some() { 88 } else { 87 };
        let address = |host| IpAddr::from(Ipv4Addr::new(10, network, 1, host));
        (1..=SOCKET_CLIENTS).map(|host| address(host).into()).collect()
    }
}

/// Packets that the cables lost between two looks.
pub(crate) fn lost_since(losses: &[Losses], earlier: &[Losses]) -> u64 {
    losses.iter().zip(earlier).map(|(now, before)| now.since(*before)).sum()
}

#[cfg(test)]
mod tests {
    use tidegate_lab::skip_without_root;

    use super::*;

    /// Which of them holds it is the scenario's to say.
    #[test]
    fn neither_side_drops_what_is_in_time_wait() {
        if skip_without_root("neither_side_drops_what_is_in_time_wait") {
            return;
        }
        for network in [Network::Direct, Network::Routed] {
            let ground = Ground::lay(network).unwrap();
            for side in [&ground.server, &ground.clients] {
                let most = side.read_file("/proc/sys/net/ipv4/tcp_max_tw_buckets").unwrap();
                assert_eq!(most.trim(), TIME_WAITS_MAX.to_string(), "{}", side.label());
            }
        }
    }
}
