// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network interfaces of the calling thread's namespace: what can be guarded, and at
//! which hook.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::zeroed;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_indextoname, if_nametoindex};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::addresses;
use crate::error::{Error, Result};
use crate::ties::{self, Ties};

/// A network interface that is up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Frames begin with an Ethernet header, as the programs expect.
    pub ethernet: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// The driver's name, as ethtool tells it; empty where it tells none.
    pub driver: String,
    /// The address of its frames, where it has one.
    pub hardware: Option<[u8; 6]>,
    /// Of a VLAN's, an ipvlan's and a macvlan's: the name of the interface below it. A VLAN's may be in another
    /// namespace, and another have its name here.
    pub below: Option<String>,
    /// Of a port of a bridge or of Open vSwitch, and of a bond's or a team's: the index of the interface that takes
    /// what comes in here, where it comes in once more. A VRF's slave has none, for what comes in there does so
    /// nowhere else.
    pub master: Option<u32>,
    /// Of a VRF's slave: the VRF's index.
    pub vrf: Option<u32>,
}

impl Interface {
    /// Whether it is a VRF.
    #[must_use]
    pub fn is_vrf(&self) -> bool {
        self.driver == VRF
    }

    /// Whether its frames have a tag below it.
    #[must_use]
    pub fn is_vlan(&self) -> bool {
        self.driver == VLAN
    }
}

/// The drivers of masters that take what comes in at those below them. Others, a VRF's among them, leave packets
/// where they came in.
const TAKERS: [&str; 4] = ["bridge", "openvswitch", "bonding", "team"];
/// drivers/net/vrf.c, DRV_NAME.
const VRF: &str = "vrf";

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 3;
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;

/// linux/ethtool.h, struct ethtool_drvinfo.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Any socket will do to ask by.
fn asking() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?)
}

/// One question to the kernel about an interface, by ioctl: unlike sysfs it answers for
/// the namespace that asks.
fn ask(
    name: &str,
    request: libc::c_ulong,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<libc::ifreq> {
    let socket = asking()?;
    // SAFETY: all zero is a valid value of this plain C structure.
    let mut question: libc::ifreq = unsafe { zeroed() };
    for (to, from) in question.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    fill(&mut question);
    // SAFETY: the structure is the one that these requests read and write.
    if unsafe { libc::ioctl(socket.as_raw_fd(), request, &mut question) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(question)
}

fn hardware_type(name: &str) -> io::Result<u16> {
    let question = ask(name, libc::SIOCGIFHWADDR as _, |_| ())?;
    // SAFETY: SIOCGIFHWADDR fills this member of the union.
    Ok(unsafe { question.ifr_ifru.ifru_hwaddr.sa_family })
}

/// The address of an interface's frames; none of its own is all zero, as loopback has it.
#[must_use]
pub fn hardware_address(name: &str) -> [u8; 6] {
    // SAFETY: SIOCGIFHWADDR fills this member of the union.
    let address =
        ask(name, libc::SIOCGIFHWADDR as _, |_| ()).map(|q| unsafe { q.ifr_ifru.ifru_hwaddr });
    let mut bytes = [0; 6];
    for (to, from) in bytes.iter_mut().zip(address.map_or([0; 14], |a| a.sa_data)) {
        *to = from as u8;
    }
    bytes
}

fn driver(name: &str) -> io::Result<String> {
    // SAFETY: all zero is a valid value of this plain C structure.
    let mut info: DriverInfo = unsafe { zeroed() };
    info.command = ETHTOOL_GDRVINFO;
    let pointer = (&raw mut info).cast();
    ask(name, SIOCETHTOOL, |q| q.ifr_ifru.ifru_data = pointer)?;
    Ok(text(&info.driver))
}

/// The driver's name by what was answered now, and the name known `before`. One that has none says so; any other error
/// tells nothing of it: a card that its driver has detached to set it right answers ENODEV until it is back.
fn driver_by(answer: io::Result<String>, before: Option<&str>) -> String {
    answer.unwrap_or_else(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => String::new(),
        _ => before.unwrap_or_default().to_owned(),
    })
}

/// drivers/net/ipvlan/ipvlan.h, IPVLAN_DRV.
const IPVLAN: &str = "ipvlan";
/// drivers/net/macvlan.c, macvlan_ethtool_get_drvinfo(): a macvtap's, too.
const MACVLAN: &str = "macvlan";
/// net/8021q/vlan.h, DRV_FULLNAME: what a VLAN's driver calls itself.
const VLAN: &str = "802.1Q VLAN Support";
const SIOCGIFVLAN: libc::c_ulong = 0x8982;
const GET_VLAN_REALDEV_NAME_CMD: libc::c_int = 8;

/// linux/if_vlan.h, struct vlan_ioctl_args; the second name is a member of a union.
#[repr(C)]
struct VlanQuestion {
    command: libc::c_int,
    name: [u8; 24],
    below: [u8; 24],
    priority: libc::c_short,
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The interface that a VLAN stands on; `None` of any other.
fn below_vlan(name: &str) -> Option<String> {
    let mut question = VlanQuestion {
        command: GET_VLAN_REALDEV_NAME_CMD,
        name: [0; 24],
        below: [0; 24],
        priority: 0,
    };
    // The kernel ends both names itself, at the 24th byte.
    for (to, from) in question.name.iter_mut().zip(name.bytes().take(23)) {
        *to = from;
    }
    let socket = asking().ok()?;
    // SAFETY: the structure is the one that this request reads and writes.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGIFVLAN, &mut question) };
    (answer >= 0).then(|| text(&question.below))
}

/// The name of the interface that has this index. What goes wrong is "" to nix 0.31, and errno says it.
fn name_of(index: u32) -> nix::Result<Option<String>> {
    let name = if_indextoname(index)?;
    match (name.is_empty(), Errno::last()) {
        (true, Errno::ENXIO | Errno::ENODEV) => Ok(None),
        (true, error) => Err(error),
        (false, _) => Ok(name.into_string().ok()),
    }
}

/// Whether no interface has this index any more.
pub(crate) fn is_gone(index: u32) -> bool {
    name_of(index) == Ok(None)
}

/// The interface that one of this driver stands on, and that meets what comes in there before it. Asked of others
/// than VLANs, a kernel without these would look for a module each time.
fn below(name: &str, driver: &str, ties: &Ties) -> Option<String> {
    match driver {
        VLAN => below_vlan(name),
        IPVLAN | MACVLAN => name_of(ties.below?).ok().flatten(),
        _ => None,
    }
}

/// The drivers of all masters, by index. Open vSwitch's is down, as a rule, and not among what is listed.
fn drivers_of_masters(ties: &BTreeMap<u32, Ties>) -> BTreeMap<u32, String> {
    // None of theirs is ever detached.
    let driver_of = |index| driver(&name_of(index).ok().flatten()?).ok();
    let all: BTreeSet<u32> = ties.values().filter_map(|ties| ties.master).collect();
    all.into_iter().filter_map(|index| Some((index, driver_of(index)?))).collect()
}

/// Whether this is an interface itself. In the place of its name its addresses may have a label, and that be
/// another's name.
fn is_interface(entry: &InterfaceAddress) -> bool {
    entry.address.is_none_or(|address| address.as_link_addr().is_some())
}

/// Every interface that is up, by index.
pub fn list() -> Result<Vec<Interface>> {
    list_after(&[])
}

/// The same, of which an earlier look has found these: a driver that cannot be asked now is the one that it was.
pub fn list_after(before: &[Interface]) -> Result<Vec<Interface>> {
    let fail = |source: io::Error| Error::Read { what: "network interfaces".to_owned(), source };
    let all_ties = ties::all().map_err(fail)?;
    let drivers = drivers_of_masters(&all_ties);
    let known = |index| before.iter().find(|i| i.index == index).map(|i| i.driver.as_str());
    let mut found: BTreeMap<u32, Interface> = BTreeMap::new();
    for entry in getifaddrs().map_err(|e| fail(e.into()))?.filter(is_interface) {
        if !entry.flags.contains(InterfaceFlags::IFF_UP) {
            continue;
        }
        let Ok(index) = if_nametoindex(entry.interface_name.as_str()) else {
            continue;
        };
        let kind = match hardware_type(&entry.interface_name) {
            Ok(kind) => kind,
            // It has just gone, or has another name.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
            Err(e) => return Err(fail(e)),
        };
        let driver = driver_by(driver(&entry.interface_name), known(index));
        let ties = all_ties.get(&index).copied().unwrap_or_default();
        let master_by = |is_meant: fn(&str) -> bool| {
            ties.master.filter(|master| drivers.get(master).is_some_and(|driver| is_meant(driver)))
        };
        let interface = Interface {
            index,
            addresses: Vec::new(),
            ethernet: matches!(kind, ARPHRD_ETHER | ARPHRD_LOOPBACK),
            loopback: kind == ARPHRD_LOOPBACK,
            below: below(&entry.interface_name, &driver, &ties),
            driver,
            hardware: entry.address.as_ref().and_then(|a| a.as_link_addr()?.addr()),
            master: master_by(|driver| TAKERS.contains(&driver)),
            vrf: master_by(|driver| driver == VRF),
            name: entry.interface_name,
        };
        found.insert(index, interface);
    }
    for (index, address) in addresses::all().map_err(fail)? {
        // One that is down has addresses, too.
        if let Some(interface) = found.get_mut(&index) {
            interface.addresses.push(address);
        }
    }
    Ok(found.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use nix::sys::socket::{MsgFlags, SockProtocol, recv};
    use tidegate_lab::{Link, Namespace, skip_without_root};

    use super::*;
    use crate::dump::attribute;
    use crate::netlink::{self, HEADER_BYTES};

    #[test]
    fn an_index_that_no_interface_has_is_gone() {
        assert!(is_gone(i32::MAX as u32) && !is_gone(if_nametoindex("lo").unwrap()));
    }

    /// Else the program that stands at it would be taken off, as from a virtual one.
    #[test]
    fn a_card_that_its_driver_has_detached_for_a_moment_has_the_driver_that_it_had() {
        let failed = |errno| Err(io::Error::from_raw_os_error(errno));
        assert_eq!(driver_by(Ok("ixgbe".to_owned()), Some("other")), "ixgbe");
        for errno in [libc::ENODEV, libc::EBUSY, libc::EIO] {
            assert_eq!(driver_by(failed(errno), Some("ixgbe")), "ixgbe", "{errno}");
            assert_eq!(driver_by(failed(errno), None), "", "nothing is known of it");
        }
        assert_eq!(driver_by(failed(libc::EOPNOTSUPP), Some("ixgbe")), "", "it has none");
    }

    /// A question of `ip address add … label`, but that wants labels to begin with the interface's name.
    fn add_labelled(index: u32, address: Ipv4Addr, label: &str) -> io::Result<()> {
        const RTM_NEWADDR: u16 = 20;
        const NLM_F_ACK_CREATE_EXCL: u16 = 0x604;
        const IFA_LOCAL: u16 = 2;
        const IFA_LABEL: u16 = 3;
        let mut question = netlink::question(RTM_NEWADDR, NLM_F_ACK_CREATE_EXCL, 8);
        question[HEADER_BYTES..HEADER_BYTES + 2].copy_from_slice(&[libc::AF_INET as u8, 24]);
        question[HEADER_BYTES + 4..].copy_from_slice(&index.to_ne_bytes());
        question.extend(attribute(IFA_LOCAL, &address.octets()));
        question.extend(attribute(IFA_LABEL, label.as_bytes()));
        let netlink = netlink::ask(SockProtocol::NetlinkRoute, question)?;
        let mut answer = [0; 256];
        recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        match netlink::word(&answer, HEADER_BYTES) {
            Some(0) => Ok(()),
            errno => Err(io::Error::from_raw_os_error(-(errno.unwrap_or(0) as i32))),
        }
    }

    /// Else its listener would be guarded nowhere, or where the other is.
    #[test]
    fn an_address_with_a_label_of_its_own_is_that_of_its_interface() {
        if skip_without_root("an_address_with_a_label_of_its_own") {
            return;
        }
        let [here, there] = ["here", "there"].map(|label| Namespace::new(label).unwrap());
        let _cable = Link::between(&here, "eth0", &there, "eth1").unwrap();
        here.ip("link add eth7 type veth").unwrap();
        for name in ["eth0", "eth7"] {
            here.ip(&format!("link set {name} up")).unwrap();
        }
        let labels = ["eth0:1", "vip", "eth7", "lo"].into_iter().zip(1..);
        let expected: Vec<(Ipv4Addr, &str)> =
            labels.map(|(label, end)| (Ipv4Addr::new(192, 0, 2, end), label)).collect();
        let added = expected.clone();
        let found = here.run(move || {
            let index = if_nametoindex("eth0").unwrap();
            for (address, label) in added {
                add_labelled(index, address, label).unwrap();
            }
            list().unwrap()
        });
        let of = |name: &str| {
            let interface = found.iter().find(|i| i.name == name).unwrap();
            interface.addresses.iter().filter(|a| a.is_ipv4()).copied().collect::<Vec<_>>()
        };
        assert_eq!(of("eth0"), expected.iter().map(|(a, _)| (*a).into()).collect::<Vec<IpAddr>>());
        assert_eq!((of("eth7"), of("lo")), (vec![], vec![IpAddr::from([127, 0, 0, 1])]));
        assert!(found.iter().all(|i| i.loopback || i.hardware.is_some()), "{found:?}");
    }

    #[test]
    fn an_ipvlan_or_a_macvlan_stands_on_the_interface_that_its_link_names() {
        let lo = Ties { below: Some(if_nametoindex("lo").unwrap()), ..Default::default() };
        for driver in [IPVLAN, MACVLAN] {
            assert_eq!(below("above0", driver, &lo).as_deref(), Some("lo"), "{driver}");
            let elsewhere = below("above0", driver, &Ties::default());
            assert_eq!(elsewhere, None, "{driver}: it is in another namespace");
        }
        assert_eq!(below("eth0", "veth", &lo), None, "that is its other end");
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_type_rather_than_another() {
        assert_eq!(hardware_type("lo").unwrap(), ARPHRD_LOOPBACK);
        let gone = hardware_type("never").unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENODEV));
        let lo = list().unwrap().into_iter().find(|i| i.name == "lo");
        assert!(lo.is_none_or(|lo| lo.loopback && lo.driver.is_empty()), "it has no driver");
    }
}
