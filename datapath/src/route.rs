// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's routes, asked by rtnetlink.

use std::io;
use std::net::IpAddr;

use nix::sys::socket::SockProtocol;

use crate::netlink::{self, HEADER_BYTES, half};

// linux/rtnetlink.h.
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_GETROUTE: u16 = 26;
pub(crate) const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
pub(crate) const ROUTE_BYTES: usize = 12;
/// Where a route's kind stands (struct rtmsg), and that of this very host.
pub(crate) const TYPE_AT: usize = 7;
pub(crate) const RTN_LOCAL: u8 = 2;

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

fn put_attribute(message: &mut Vec<u8>, kind: u16, address: IpAddr) {
    let octets = octets(address);
    message.extend((octets.len() as u16 + 4).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(octets);
}

fn question(to: IpAddr, from: Option<IpAddr>) -> Vec<u8> {
    let bits = if to.is_ipv4() { 32 } else { 128 };
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let mut message = netlink::question(RTM_GETROUTE, 0, ROUTE_BYTES);
    message[HEADER_BYTES..HEADER_BYTES + 3].copy_from_slice(&[
        family,
        bits,
        from.map_or(0, |_| bits),
    ]);
    put_attribute(&mut message, RTA_DST, to);
    if let Some(from) = from {
        put_attribute(&mut message, RTA_SRC, from);
    }
    message
}

/// The route in an answer, with its attributes; or the kernel's error.
fn route_in(answer: &[u8]) -> io::Result<&[u8]> {
    match (netlink::error_in(answer), half(answer, 4)) {
        (Some(error), _) => Err(error),
        (None, Some(RTM_NEWROUTE)) => Ok(answer.get(HEADER_BYTES..).unwrap_or_default()),
        (None, _) => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// The interface that an answer names.
fn interface_of(answer: &[u8]) -> io::Result<Option<u32>> {
    let attributes = route_in(answer)?.get(ROUTE_BYTES..).unwrap_or_default();
    Ok(netlink::word_in(attributes, RTA_OIF))
}

/// Whether an answer's route ends at this host. One that the kernel refuses to give leads nowhere.
fn ends_here(answer: &[u8]) -> bool {
    route_in(answer).is_ok_and(|route| route.get(TYPE_AT) == Some(&RTN_LOCAL))
}

fn answer(to: IpAddr, from: Option<IpAddr>) -> io::Result<Vec<u8>> {
    netlink::answer(SockProtocol::NetlinkRoute, question(to, from))
}

/// The index of the interface by which this host sends to `to`, from its address `from`: where
/// packets come in from there, as long as both ways are one. `None`: by none.
///
/// # Errors
/// The kernel's, such as `ENETUNREACH` where no route leads there.
pub fn interface_to(to: IpAddr, from: Option<IpAddr>) -> io::Result<Option<u32>> {
    interface_of(&answer(to, from)?)
}

/// Whether what comes for this address is for this host: also where no interface has it, but a whole
/// network is routed here (AnyIP).
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_local(address: IpAddr) -> io::Result<bool> {
    Ok(ends_here(&answer(address, None)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::NLMSG_ERROR;

    #[test]
    fn the_kernel_knows_the_way_to_this_very_host() {
        let loopback = nix::net::if_::if_nametoindex("lo").unwrap();
        let to = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(interface_to(to, None).unwrap(), Some(loopback));
        assert_eq!(interface_to(to, Some(to)).unwrap(), Some(loopback));
        assert!(is_local([127, 0, 0, 9].into()).unwrap(), "of all loopback's network");
        assert!(!is_local([203, 0, 113, 9].into()).unwrap(), "a document's, and nobody's");
    }

    #[test]
    fn an_error_and_an_answer_are_told_apart() {
        let mut answer = question("192.0.2.1".parse().unwrap(), None);
        assert!(interface_of(&answer).is_err(), "that is a question");
        answer[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        assert_eq!(interface_of(&answer).unwrap(), None);
        assert!(!ends_here(&answer), "of a kind that is not said");
        answer[HEADER_BYTES + TYPE_AT] = RTN_LOCAL;
        assert!(ends_here(&answer));
        answer.extend([8u16, RTA_OIF, 7, 0].map(u16::to_ne_bytes).concat());
        assert_eq!(interface_of(&answer).unwrap(), Some(7));
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&(-101i32).to_ne_bytes());
        assert_eq!(interface_of(&answer).unwrap_err().raw_os_error(), Some(101));
        assert!(!ends_here(&answer), "no route is none to this host");
    }
}
