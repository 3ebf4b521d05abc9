// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client, routers in a row, and a server behind them, over IPv4.

use std::net::{IpAddr, Ipv4Addr};

use tidegate_lab::{Link, Namespace};

/// Hosts in a row, joined by veths. The hosts between the ends forward.
pub struct Chain {
    /// From the client to the server.
    hosts: Vec<Namespace>,
    /// The veth between host i and host i + 1, in 10.80.i.0/24: .1 and .2.
    links: Vec<Link>,
}

fn left_end(link: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 80, link as u8, 1)
}

fn right_end(link: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 80, link as u8, 2)
}

impl Chain {
    /// A client and a server with this many routers between them.
    pub fn new(label: &str, routers: usize) -> Self {
        let hosts: Vec<Namespace> = (0..routers + 2)
            .map(|i| Namespace::new(&format!("{label}-{i}")).expect("a namespace"))
            .collect();
        let links: Vec<Link> = (0..=routers)
            .map(|i| {
                let (left, right) = (format!("right{i}"), format!("left{}", i + 1));
                let link = Link::between(&hosts[i], &left, &hosts[i + 1], &right).expect("a veth");
                for (end, address) in [(link.a(), left_end(i)), (link.b(), right_end(i))] {
                    end.add_address(&format!("{address}/24")).expect("an address");
                }
                link.up().expect("both ends up");
                link
            })
            .collect();
        for (i, host) in hosts.iter().enumerate() {
            for far in 0..=routers {
                // Its own links are at i - 1 and i; what lies further is behind a neighbour.
                let gateway = if far > i {
                    right_end(i)
                } else if far + 1 < i {
                    left_end(i - 1)
                } else {
                    continue;
                };
                host.ip(&format!("route add 10.80.{far}.0/24 via {gateway}")).expect("a route");
            }
            if i > 0 && i <= routers {
                host.sysctl("net.ipv4.ip_forward", 1).expect("forwarding");
            }
        }
        Chain { hosts, links }
    }

    /// The client's host.
    pub fn client(&self) -> &Namespace {
        &self.hosts[0]
    }

    /// The client's address.
    pub fn client_address(&self) -> IpAddr {
        left_end(0).into()
    }

    /// The client's cable, to the router next to it.
    pub fn client_link(&self) -> &Link {
        &self.links[0]
    }

    /// A router, from the client's side; its interface to the client is `left` and its number,
    /// counted from 1.
    pub fn router(&self, number: usize) -> &Namespace {
        assert!(number + 2 < self.hosts.len(), "there is no such router");
        &self.hosts[number + 1]
    }

    /// The address of the last router, on the server's side.
    pub fn router_address(&self) -> IpAddr {
        left_end(self.hosts.len() - 2).into()
    }

    /// The server's host.
    pub fn server(&self) -> &Namespace {
        self.hosts.last().expect("two hosts at least")
    }

    /// The server's address.
    pub fn server_address(&self) -> IpAddr {
        right_end(self.hosts.len() - 2).into()
    }
}
