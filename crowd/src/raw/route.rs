// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way to a target as the kernel knows it: interface, next hop, Ethernet addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkLayerType, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr as NetlinkAddr};

use crate::error::CrowdError;
use crate::raw::frame::Mac;
use crate::raw::ring::set_option_at;

const ANSWER_BYTES: usize = 32 * 1024;
/// ARP and neighbour discovery ask three times, a second apart.
const RESOLVING_MAX: Duration = Duration::from_secs(3);
/// The discard service: whoever gets the datagram need not answer.
const DISCARD_PORT: u16 = 9;

/// An interface that frames can leave by.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub index: u32,
    pub name: String,
    pub mac: Mac,
    pub receive_queues: u32,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
    pub is_veth: bool,
}

/// Where the kernel would send a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub interface: u32,
    pub next_hop: IpAddr,
    /// The address that the kernel would send from.
    pub source: Option<IpAddr>,
}

/// A question to the kernel's routing tables, in the calling thread's network namespace.
#[derive(Debug)]
pub(crate) struct Kernel {
    socket: Socket,
}

impl Kernel {
    pub(crate) fn new() -> Result<Self, CrowdError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&NetlinkAddr::new(0, 0))?;
            Ok(socket)
        };
        open().map(|socket| Self { socket }).map_err(failed("ask the kernel for routes"))
    }

    /// The way to an address: by one interface, else by the one that the target's zone names, else
    /// by whichever the kernel chooses.
    pub(crate) fn route(
        &self,
        target: SocketAddr,
        interface: Option<u32>,
    ) -> Result<Route, CrowdError> {
        let mut message = RouteMessage::default();
        let (family, bits) = family(target.ip());
        message.header.address_family = family;
        message.header.destination_prefix_length = bits;
        message.attributes.push(RouteAttribute::Destination(target.ip().into()));
        let by = interface.or_else(|| zone(target));
        message.attributes.extend(by.map(RouteAttribute::Oif));
        let unreachable = |reason: String| CrowdError::NoRoute { target, reason };
        let answer = match self.ask(RouteNetlinkMessage::GetRoute(message)) {
            Ok(RouteNetlinkMessage::NewRoute(answer)) => answer,
            Ok(_) => return Err(unreachable("the kernel answered something else".to_owned())),
            Err(error) => return Err(unreachable(error.to_string())),
        };
        if answer.header.kind != RouteType::Unicast {
            let kind = format!("its route is of type {:?}", answer.header.kind).to_lowercase();
            return Err(unreachable(kind));
        }
        let mut route = Route { interface: 0, next_hop: target.ip(), source: None };
        for attribute in answer.attributes {
            match attribute {
                RouteAttribute::Oif(index) => route.interface = index,
                RouteAttribute::Gateway(RouteAddress::Inet(hop)) => route.next_hop = hop.into(),
                RouteAttribute::Gateway(RouteAddress::Inet6(hop)) => route.next_hop = hop.into(),
                RouteAttribute::PrefSource(RouteAddress::Inet(own)) => {
                    route.source = Some(own.into());
                }
                RouteAttribute::PrefSource(RouteAddress::Inet6(own)) => {
                    route.source = Some(own.into());
                }
                _ => {}
            }
        }
        Ok(route)
    }

    /// Whether an address is this host's own.
    pub(crate) fn is_local(&self, address: IpAddr) -> bool {
        let mut message = RouteMessage::default();
        let (family, bits) = family(address);
        message.header.address_family = family;
        message.header.destination_prefix_length = bits;
        message.attributes.push(RouteAttribute::Destination(address.into()));
        let answer = self.ask(RouteNetlinkMessage::GetRoute(message));
        matches!(answer, Ok(RouteNetlinkMessage::NewRoute(answer))
            if answer.header.kind == RouteType::Local)
    }

    /// What an interface is.
    pub(crate) fn interface(&self, index: u32) -> Result<Interface, CrowdError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let told = match self.ask(RouteNetlinkMessage::GetLink(message)) {
            Ok(RouteNetlinkMessage::NewLink(told)) => told,
            Ok(_) => return Err(failed("read an interface")(io::ErrorKind::InvalidData.into())),
            Err(error) => return Err(failed("read an interface")(error)),
        };
        let mut interface = Interface {
            index,
            name: String::new(),
            mac: Mac::default(),
            receive_queues: 1,
            mtu: 0,
            is_veth: false,
        };
        for attribute in told.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name = name,
                LinkAttribute::NumRxQueues(count) => interface.receive_queues = count.max(1),
                LinkAttribute::LinkInfo(told) => {
                    interface.is_veth = told.contains(&LinkInfo::Kind(InfoKind::Veth));
                }
                LinkAttribute::Mtu(mtu) => interface.mtu = mtu.try_into().unwrap_or(u16::MAX),
                LinkAttribute::Address(address) => {
                    interface.mac = address.try_into().unwrap_or_default();
                }
                _ => {}
            }
        }
        if told.header.link_layer_type != LinkLayerType::Ether {
            return Err(CrowdError::NoEthernet { interface: interface.name });
        }
        Ok(interface)
    }

    /// The Ethernet address of a next hop. Where the kernel does not know it yet, it is made to
    /// ask, by sending it a datagram.
    pub(crate) fn neighbour(&self, interface: u32, hop: IpAddr) -> Result<Mac, CrowdError> {
        let begun = Instant::now();
        let mut asked = false;
        while begun.elapsed() < RESOLVING_MAX {
            if let Some(mac) = self.known_neighbour(interface, hop) {
                return Ok(mac);
            }
            if !asked {
                asked = true;
                make_resolve(interface, hop);
            }
            sleep(Duration::from_millis(2));
        }
        Err(CrowdError::NoNeighbour { hop })
    }

    fn known_neighbour(&self, interface: u32, hop: IpAddr) -> Option<Mac> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(hop).0;
        message.header.ifindex = interface;
        let address = match hop {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        };
        message.attributes.push(NeighbourAttribute::Destination(address));
        let answer = self.ask(RouteNetlinkMessage::GetNeighbour(message)).ok()?;
        let RouteNetlinkMessage::NewNeighbour(neighbour) = answer else { return None };
        neighbour.attributes.into_iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(address) => address.try_into().ok(),
            _ => None,
        })
    }

    /// One question, one answer.
    fn ask(&self, question: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answer = vec![0; ANSWER_BYTES];
        let length = self.socket.recv(&mut &mut answer[..], 0)?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..length])
            .map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::InnerMessage(answer) => Ok(answer),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> CrowdError {
    move |source| CrowdError::Events { step, source }
}

/// The interface that a target's zone names.
fn zone(target: SocketAddr) -> Option<u32> {
    match target {
        SocketAddr::V6(target) if target.scope_id() != 0 => Some(target.scope_id()),
        _ => None,
    }
}

fn family(address: IpAddr) -> (AddressFamily, u8) {
    match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    }
}

/// Failures show as an address that stays unknown.
fn make_resolve(interface: u32, hop: IpAddr) {
    let any: IpAddr = match hop {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let Ok(socket) = UdpSocket::bind((any, 0)) else { return };
    // The hop may be on the networks of several interfaces, and routes may prefer another.
    let by = interface.cast_signed();
    let _ = set_option_at(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &by);
    let to = match hop {
        IpAddr::V4(hop) => SocketAddr::from((hop, DISCARD_PORT)),
        // A link-local hop is one on this interface.
        IpAddr::V6(hop) => std::net::SocketAddrV6::new(hop, DISCARD_PORT, 0, interface).into(),
    };
    let _ = socket.send_to(&[], to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_names_an_interface() {
        let zone = |target: &str| zone(target.parse().unwrap());
        assert_eq!(zone("[fe80::1%7]:80"), Some(7));
        assert_eq!((zone("[fe80::1]:80"), zone("10.0.0.1:80")), (None, None));
    }
}
