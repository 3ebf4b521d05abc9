// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How interfaces stand on each other.

use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::raw::tg_listener_row;

use crate::failure::{Failure, Result};

pub(super) fn by_name<'a>(name: &str, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    interfaces.iter().find(|i| i.name == name)
}

/// The interface of this name, whether it can be guarded or not.
pub fn named<'a>(name: &str, interfaces: &'a [Interface]) -> Result<&'a Interface> {
    by_name(name, interfaces).ok_or_else(|| {
        let known: Vec<&str> = interfaces.iter().map(|i| i.name.as_str()).collect();
        Failure::argument(
            format!("interface \"{name}\" is not here or not up"),
            format!("name one of: {}", known.join(", ")),
        )
    })
}

/// The drivers of interfaces that have no hardware behind them, or another machine's. With a program virtio_net does
/// without its receive offloads (`virtnet_xdp_set()`); and Xen's says that it has taken one, and runs none, where the
/// other end leaves no room before frames (`xennet_xdp_set()`). Hyper-V's gives it to another ([`HANDS_ON`]).
/// VMware's takes LRO, which is on as a rule, out of its features and does not put it back (`vmxnet3_xdp_set()`,
/// Linux 6.6). Others of virtual machines keep what they have (ena, mana, ixgbevf), or refuse a program while LRO is on
/// (gve, mlx5).
const VIRTUAL: [&str; 10] =
    ["", "veth", "bridge", "bonding", "tun", "dummy", "virtio_net", "vif", "hv_netvsc", "vmxnet3"];

/// The drivers that give their program to an interface below them, a bond's to its slaves (`bond_xdp_set()`) and
/// Hyper-V's to the card's virtual function (`netvsc_vf_setxdp()`): there it goes by that one's index.
pub(super) const HANDS_ON: [&str; 2] = ["bonding", "hv_netvsc"];

/// An interface whose driver gets a program only where it is asked for.
pub(super) fn is_virtual(interface: &Interface) -> bool {
    interface.loopback || interface.below.is_some() || VIRTUAL.contains(&interface.driver.as_str())
}

/// Loopback has no driver, and a VLAN, an ipvlan or a macvlan none that takes a program: what is asked of the driver is
/// decided at the IP entry.
pub(super) fn has_no_driver(interface: &Interface) -> bool {
    interface.loopback || interface.below.is_some()
}

/// The interface at which a VLAN's, an ipvlan's or a macvlan's packets can be judged before they come to it: that below
/// it, where they are for it by their frame's address. A macvlan has the same in passthru mode alone. Of a VLAN with an
/// address of its own they are others' there (`PACKET_OTHERHOST`, until `vlan_do_receive()`); and where a container has
/// a VLAN of its host's, another interface may have the name of the one below it.
fn below<'a>(above: &Interface, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    let below = by_name(above.below.as_deref()?, interfaces)?;
    (below.index != above.index && below.hardware == above.hardware).then_some(below)
}

/// An interface, and those below it.
pub fn down<'a>(
    interface: &'a Interface,
    interfaces: &'a [Interface],
) -> impl Iterator<Item = &'a Interface> {
    let next = |above: &&'a Interface| below(above, interfaces);
    // No deeper than there are interfaces, whatever they are called.
    std::iter::successors(Some(interface), next).take(interfaces.len().max(1))
}

/// An interface, its master, and so on: where what comes in at a port comes in once more.
pub fn up<'a>(
    interface: &'a Interface,
    interfaces: &'a [Interface],
) -> impl Iterator<Item = &'a Interface> {
    let next = |port: &&'a Interface| interfaces.iter().find(|i| port.master == Some(i.index));
    std::iter::successors(Some(interface), next).take(interfaces.len().max(1))
}

/// The VRF that a listening socket is bound to.
pub fn vrf_of<'a>(row: &tg_listener_row, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    interfaces.iter().find(|i| i.index == row.bound_ifindex && i.is_vrf())
}
