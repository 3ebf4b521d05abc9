// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crowd with packets of its own, past the kernel's TCP.

mod attempts;
mod crowd;
mod delayed;
mod device;
mod filter;
mod frame;
mod marks;
mod named;
mod packet;
mod polling;
mod post;
mod ring;
mod route;
mod tuples;
mod waiting;
mod xsk;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

use ipnet::IpNet;
use nix::net::if_::if_nametoindex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tidegate_client::pairs::PAIRS_OF_A_MINUTE;
use tidegate_client::{Outcome, Pairs, Person, Progress, Requests, Segments};
use tidegate_policy::raw::{tg_key, tg_tw_rules};

use crate::class::{Class, each_at_each, host};
use crate::error::CrowdError;
use crate::limits::wake_punctually;
use crate::plan::{Load, Plan, ns, ranges_of};
use crate::raw::crowd::{Crowd, Parts, Persona};
use crate::raw::delayed::Delayed;
use crate::raw::device::Device;
use crate::raw::frame::Way;
use crate::raw::post::Office;
use crate::raw::route::Kernel;
use crate::raw::tuples::{Ports, Tuples};
use crate::sources::{Range, Sources};

/// Another stream of the seed than the schedule's and the clients'.
const WEATHER: u64 = 0x7765_6174_6865_7221;
/// Sources that the kernel is asked about: it answers some 100,000 questions a second.
const LOOKED_AT_MAX: u64 = 1 << 12;
/// Larger packets would not fit into a frame of ours.
const MTU_MAX: u16 = 1500;
/// IP's and TCP's fixed headers.
const IPV4_HEADERS_BYTES: u16 = 40;
const IPV6_HEADERS_BYTES: u16 = 60;

/// A step that failed, as a verb phrase, and why.
type Failure = (&'static str, io::Error);

/// Sends a crowd with raw packets.
pub(crate) fn run(
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Outcome, CrowdError> {
    wake_punctually();
    let ground = survey(plan)?;
    let targets: Vec<SocketAddr> = ground.ways.iter().map(|way| way.target).collect();
    let device = Device::open(&ground.interface, &targets, plan.large_replies, || {
        ground.sources_are_foreign()
    })?;
    let Device { mut arrivals, transmitter, driver } = device;
    let weather = ChaCha8Rng::seed_from_u64(plan.seed ^ WEATHER);
    let delayed = Delayed::new();
    let pairs = pairs(plan);
    let office = Office { transmitter, delayed, weather, segments: Segments::default(), pairs };
    let mtu = ground.interface.mtu;
    let personas = each_at_each(plan, |class, target, paths, objects| {
        persona(class, target, mtu, paths, objects)
    });
    let parts = Parts { personas, ways: ground.ways, tuples: ground.tuples, office };
    let outcome = Crowd::gather(plan, parts, watch)?.drive(&mut arrivals, stop)?;
    Ok(Outcome { driver, ..outcome })
}

/// The table of pairs that the clients hold, where they are to.
fn pairs(plan: &Plan) -> Option<Pairs> {
    let asks = plan.classes.iter().any(|class| class.time_wait != tg_tw_rules::default());
    asks.then(|| Pairs::new(PAIRS_OF_A_MINUTE, tg_key { k0: plan.seed, k1: !plan.seed }))
}

/// The ways there are to go.
struct Ground {
    interface: route::Interface,
    ways: Vec<Way>,
    tuples: Tuples,
    kernel: Kernel,
}

impl Ground {
    /// Whether none of the sources, or of the first of them, is an address of this host.
    fn sources_are_foreign(&self) -> bool {
        self.tuples.sources().all(|sources| {
            let looked_at = 0..sources.len().min(LOOKED_AT_MAX);
            looked_at.into_iter().all(|number| !self.kernel.is_local(sources.address(number)))
        })
    }
}

fn survey(plan: &Plan) -> Result<Ground, CrowdError> {
    let kernel = Kernel::new()?;
    let named = match &plan.interface {
        None => None,
        Some(name) => Some(
            if_nametoindex(name.as_str())
                .map_err(|_| CrowdError::NoInterface { interface: name.clone() })?,
        ),
    };
    let mut routes = Vec::new();
    for &target in &plan.targets {
        routes.push((target, kernel.route(target, named)?));
    }
    let index = routes[0].1.interface;
    if routes.iter().any(|(_, route)| route.interface != index) {
        return Err(CrowdError::SeveralInterfaces);
    }
    let interface = kernel.interface(index)?;
    let homes = plan.homes();
    let (mut ways, mut tuples) = (Vec::new(), Vec::new());
    for (target, route) in routes {
        let next_hop = kernel.neighbour(index, route.next_hop)?;
        ways.push(Way::new(target, next_hop, interface.mac));
        let mut ranges = plan.ranges_for(target);
        if ranges.is_empty() {
            let own: IpAddr = route.source.ok_or(CrowdError::NoSource { target })?;
            ranges.push(Range::of(own.into()));
        }
        tuples.push((target, Sources::new(ranges)));
    }
    // Not where the last run began: the server may still hold connections of it.
    let begin = crowd::clock_ns();
    let mut tuples = Tuples::new(tuples, plan.ports, begin, Ports::of(plan));
    if homes.len() > 1 {
        let at = |home: &[IpNet], target| Sources::new(ranges_of(home, target));
        let at_each = |home| plan.targets.iter().map(|target| at(home, *target)).collect();
        tuples = tuples.with_homes(homes.into_iter().map(at_each).collect(), begin);
    }
    check_ports(plan, tuples.len())?;
    Ok(Ground { interface, ways, tuples, kernel })
}

/// In a closed loop each client has a connection: some would never find a port, and only fail. Who
/// browses has several, or, thinking, none.
fn check_ports(plan: &Plan, tuples: u64) -> Result<(), CrowdError> {
    let browses = plan.classes.iter().any(|class| class.browsing.is_some());
    match plan.load {
        Load::Closed { clients } if !browses && clients as u64 > tuples => {
            Err(CrowdError::FewPorts { clients, tuples })
        }
        _ => Ok(()),
    }
}

fn persona(
    class: &Class,
    target: SocketAddr,
    mtu: u16,
    paths: &[String],
    objects: Option<usize>,
) -> Persona {
    let headers = if target.is_ipv6() { IPV6_HEADERS_BYTES } else { IPV4_HEADERS_BYTES };
    Persona {
        person: Person {
            os: class.os,
            mss: mtu.min(MTU_MAX).saturating_sub(headers),
            timeout_ns: ns(class.timeout),
            close: class.close,
            time_wait: class.time_wait,
            requests: Requests::get(&host(target), paths.iter().map(String::as_str)),
        },
        network: class.network,
        requests: class.requests,
        objects,
        part: class.part,
    }
}
