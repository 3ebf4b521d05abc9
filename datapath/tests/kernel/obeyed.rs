// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom the agent obeys, where the kernel does not take what is to be in its place.

use std::time::Duration;

use crate::common::scene::in_a_namespace;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use tidegate_datapath::Error;
use tidegate_datapath::agent::{Agent, Destination, Reader};
use tidegate_datapath::plain::bytes_of;
use tidegate_datapath::raw::*;
use tidegate_policy::raw::tg_target;

fn destination(network: &str) -> Destination {
    let longest = Duration::from_secs(60);
    Destination { network: network.parse().unwrap(), port: None, longest }
}

/// What was said is to be forgotten, and cannot be: userspace writes no more into a map that is frozen.
#[test]
fn who_cannot_take_up_new_destinations_obeys_the_old_ones_or_says_that_it_does_in_part() {
    let name =
        "who_cannot_take_up_new_destinations_obeys_the_old_ones_or_says_that_it_does_in_part";
    in_a_namespace(name, |_| {
        let agent = Agent::load().unwrap();
        let before = [destination("192.0.2.0/24"), destination("2001:db8::/32")];
        agent.obey(&before).unwrap();
        let ids = agent.map_ids().unwrap();
        let map = |name| {
            let (_, id) = ids.iter().find(|(known, _)| *known == name).unwrap();
            MapHandle::from_map_id(*id).unwrap()
        };
        let avoided = map("avoided");
        let target = tg_target { port: 80, ..Default::default() };
        let (key, value) = (bytes_of(&target), tg_avoided::default());
        avoided.update(key, bytes_of(&value), MapFlags::ANY).unwrap();
        avoided.freeze().unwrap();
        let next = [destination("198.51.100.0/24")];
        assert!(matches!(agent.obey(&next), Err(Error::Map { .. })));
        let named: Vec<_> = ids.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect();
        let reader = Reader::open(&named).unwrap();
        assert_eq!(reader.destinations().unwrap(), before);

        map("obeyed").freeze().unwrap();
        assert!(matches!(agent.obey(&next), Err(Error::InPart { .. })));
    });
}
