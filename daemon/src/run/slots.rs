// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who has a counter slot of its own, where there are more listening sockets than slots; and whose backlog may be
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use tidegate_datapath::raw::{TG_GUARDS, TG_SLOTS};

/// The guard by whose rules a socket is judged, and its cookie.
pub type Owner = (u32, u64);

/// What counts as one address: on which of the loopback's 2^24 a socket is, its user has chosen.
fn place(address: IpAddr) -> IpAddr {
    if address.is_loopback() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address }
}

/// The owners of at most so many slots. Each guard's sockets on an address have one before any have a second: any
/// user may open a thousand of a SO_REUSEPORT group on a port from 1024 up, on an address that the application leaves
/// free. The older comes first (the kernel counts cookies up), so that none is given up for what comes later to the
/// same address.
pub fn owners(wanted: impl Iterator<Item = (Owner, IpAddr)>, most: usize) -> BTreeSet<Owner> {
    let mut places: BTreeMap<(u32, IpAddr), BTreeSet<u64>> = BTreeMap::new();
    for ((guard, cookie), address) in wanted {
        places.entry((guard, place(address))).or_default().insert(cookie);
    }
    let ranked = places.iter().flat_map(|((guard, _), cookies)| {
        cookies.iter().enumerate().map(|(rank, cookie)| (rank, (*guard, *cookie)))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable();
    ranked.into_iter().take(most).map(|(_, owner)| owner).collect()
}

/// The slots that are not used, behind those that are the guards' own.
pub fn free<'a>(used: impl IntoIterator<Item = &'a u32>) -> impl Iterator<Item = u32> {
    let used: BTreeSet<u32> = used.into_iter().copied().collect();
    (TG_GUARDS..TG_SLOTS).filter(move |slot| !used.contains(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    /// One of 250.
    fn loopback(number: u64) -> IpAddr {
        IpAddr::from([127, 0, 0, 1 + (number % 250) as u8])
    }

    #[test]
    fn who_opens_a_thousand_sockets_takes_no_slot_from_another_address() {
        let crowd = (0..1000).map(|cookie| ((3, 100 + cookie), loopback(cookie)));
        // It has been opened anew since, and begins behind them all.
        let application = (0..4).map(|cookie| ((3, 5000 + cookie), OWN));
        let other_guard = ((2, 6000), OWN);
        let all = || crowd.clone().chain(application.clone()).chain([other_guard]);
        let owners = owners(all(), 960);
        assert_eq!(owners.len(), 960);
        for (owner, _) in application.clone().chain([other_guard]) {
            assert!(owners.contains(&owner), "{owner:?}");
        }
        assert!(owners.contains(&(3, 100)) && !owners.contains(&(3, 1099)), "the older come first");
    }

    #[test]
    fn a_slot_is_free_that_nobody_has_and_no_guard_counts_in() {
        let free_of = |used: &[u32]| free(used).collect::<Vec<_>>();
        let used = [TG_GUARDS + 1, TG_SLOTS - 1];
        let free = free_of(&used);
        assert_eq!(free[..2], [TG_GUARDS, TG_GUARDS + 2]);
        assert_eq!(free.last(), Some(&(TG_SLOTS - 2)));
        assert_eq!(free.len(), 960 - used.len());
        let all: Vec<u32> = (TG_GUARDS..TG_SLOTS).collect();
        assert!(free_of(&all).is_empty());
    }

    #[test]
    fn where_there_is_room_each_has_its_own() {
        let wanted = [((1, 8), OWN), ((1, 7), OWN), ((2, 7), OWN), ((1, 9), loopback(0))];
        let expected = BTreeSet::from(wanted.map(|(owner, _)| owner));
        assert_eq!(owners(wanted.into_iter(), 4), expected);
    }
}
