// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a cookie goes: to the next hop of the route to its client, whoever sent the SYN, and to nobody where
//! that route leads elsewhere than back.

use crate::common::Runner;
use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::wire::hardware_address;
use nix::net::if_::if_nametoindex;
use tidegate_lab::{Link, Namespace};
use tidegate_policy::raw::*;

/// Of whoever the routes name.
const NEXT_HOP: [u8; 6] = [0x02, 0, 0, 0, 0, 0x07];
const VLAN: (u16, u16) = (0x8100, 5);

/// Cables: behind srv0 is 10.9.1.0/24, behind out0 10.8.0.0/16, and behind the bridge above port0 10.7.0.0/16; of each
/// network a neighbour is known.
struct Host {
    namespace: Namespace,
    guards: Guards,
    _servers: [Server; 2],
    _outside: Outside,
    _links: [Link; 2],
}

impl Host {
    fn of(namespace: &Namespace) -> Self {
        let outside = Outside::of(namespace);
        let links = ["out0", "port0"].map(|device| {
            let beyond = Namespace::new("beyond").unwrap();
            let link = Link::between(namespace, device, &beyond, "in0").unwrap();
            link.up().unwrap();
            // A driver's queues are there to be named while it hands frames up in batches.
            link.receive_offload().unwrap();
            link
        });
        namespace.output(namespace.command("ethtool -K srv0 gro on")).unwrap();
        namespace.ip("link add br0 type bridge").unwrap();
        namespace.ip("link set port0 master br0").unwrap();
        namespace.ip("link set br0 up").unwrap();
        for (network, device) in [(8, "out0"), (7, "br0")] {
            for (to, neighbor) in [("10.N.0.0/16", "10.N.1.7"), ("fd0N::/16", "fd0N:1::7")] {
                let [to, neighbor] = [to, neighbor].map(|s| s.replace('N', &network.to_string()));
                namespace.ip(&format!("route add {to} dev {device}")).unwrap();
                let known =
                    format!("neighbor add {neighbor} lladdr 02:00:00:00:00:07 dev {device}");
                namespace.ip(&known).unwrap();
            }
        }
        let servers = [at(V4, FULL), at(V6, FULL)].map(Server::full);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let namespace = namespace.clone();
        Host { namespace, guards, _servers: servers, _outside: outside, _links: links }
    }

    fn forwards(&self, value: u64) {
        for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            self.namespace.sysctl(name, value).unwrap();
        }
    }

    fn syn(&self, from: &str, device: &str) -> Segment {
        let from = at(from, 40_000);
        let to = at(if from.is_ipv4() { V4 } else { V6 }, FULL);
        let link_to = hardware_address(&self.namespace, device);
        Segment::syn(from, to).with(|s| s.link_to = link_to)
    }

    /// The verdict on a SYN that comes in by `device`, and to whom the answer goes.
    fn judges(&self, hook: Hook, device: &str, syn: &Segment) -> (Vec<Counted>, Option<[u8; 6]>) {
        let (frame, before) = (syn.bytes(), self.guards.counts());
        let index = if_nametoindex(device).unwrap();
        // struct xdp_md: where the data ends, and the interface; struct __sk_buff: the interface.
        let words = match hook {
            IP => vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, index],
            _ => vec![0, frame.len() as u32, 0, index, 0, 0],
        };
        let context: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        let mut runner = Runner::new();
        let ran = runner.run(self.guards.program(hook.program), &frame, &context).unwrap();
        let link_to = match hook.outcome(ran.returned) {
            Outcome::Answer => Some(ran.packet[..6].try_into().unwrap()),
            _ => None,
        };
        assert!(link_to.is_none() || ran.packet[6..12] == syn.link_to, "from where it came to");
        (self.guards.counts().since(&before), link_to)
    }

    #[track_caller]
    fn assert_answered(&self, from: &str, device: &str, next_hop: [u8; 6], why: &str) {
        for hook in HOOKS {
            let judged = self.judges(hook, device, &self.syn(from, device));
            let cookie = (vec![(0, "ListenQFullAtSyn", "cookie", 1)], Some(next_hop));
            assert_eq!(judged, cookie, "{from} at {device}, {why}, {hook:?}");
        }
    }

    #[track_caller]
    fn assert_left(&self, from: &str, device: &str, why: &str) {
        for hook in HOOKS {
            let judged = self.judges(hook, device, &self.syn(from, device));
            let left = (vec![(0, "NoCookie", "pass", 1)], None);
            assert_eq!(judged, left, "{from} at {device}, {why}, {hook:?}");
        }
    }
}

/// The neighbour behind srv0, behind out0, and behind the bridge; by family.
const NEIGHBOURS: [[&str; 3]; 2] =
    [["10.9.1.7", "10.8.1.7", "10.7.1.7"], ["fd09:1::7", "fd08:1::7", "fd07:1::7"]];

#[test]
fn a_cookie_goes_to_the_next_hop_of_its_client_whoever_sent_the_syn() {
    in_a_namespace(
        "a_cookie_goes_to_the_next_hop_of_its_client_whoever_sent_the_syn",
        |namespace| {
            let host = Host::of(namespace);
            host.forwards(1);
            for [behind, out, bridged] in NEIGHBOURS {
                host.assert_answered(behind, "srv0", NEXT_HOP, "another neighbour sent it");
                host.assert_answered(out, "out0", NEXT_HOP, "another neighbour sent it");
                // As a VLAN's frames are, which have their tag in them there.
                host.assert_answered(bridged, "port0", NEXT_HOP, "it is met below the bridge");
                let tagged = host.syn(bridged, "port0").with(|s| s.vlans = vec![VLAN]);
                for hook in [DRIVER, DRIVER_VETH] {
                    let (_, link_to) = host.judges(hook, "port0", &tagged);
                    assert_eq!(link_to, Some(NEXT_HOP), "{bridged}, {hook:?}");
                }
            }
            // Behind a router, whichever of several has sent it.
            namespace.ip("route add 192.0.2.0/24 via 10.9.1.7 dev srv0 onlink").unwrap();
            host.assert_answered(
                "192.0.2.9",
                "srv0",
                NEXT_HOP,
                "by the router that the route names",
            );
            host.assert_answered("fe80::9", "srv0", THERE, "of the link itself");
        },
    );
}

#[test]
fn a_syn_that_came_in_elsewhere_than_the_route_to_its_client_leads_is_left_to_the_kernel() {
    const TEST: &str =
        "a_syn_that_came_in_elsewhere_than_the_route_to_its_client_leads_is_left_to_the_kernel";
    in_a_namespace(TEST, |namespace| {
        let host = Host::of(namespace);
        host.forwards(1);
        namespace.ip("route add blackhole 10.6.0.0/16").unwrap();
        for [behind, out, _] in NEIGHBOURS {
            host.assert_left(out, "srv0", "the other cable leads to it");
            host.assert_left(behind, "out0", "the other cable leads to it");
        }
        for (from, why) in [
            ("10.8.1.8", "a neighbour that is not known"),
            ("fd08:1::8", "a neighbour that is not known"),
            ("10.66.0.5", "no route"),
            ("fd66::5", "no route"),
            ("10.6.0.5", "a route that leads nowhere"),
            (V4, "the host itself"),
            (V6, "the host itself"),
        ] {
            host.assert_left(from, "out0", why);
        }
    });
}

/// bpf_fib_lookup() tells no route there.
#[test]
fn where_the_host_does_not_forward_a_cookie_goes_to_who_sent_the_syn() {
    in_a_namespace(
        "where_the_host_does_not_forward_a_cookie_goes_to_who_sent_the_syn",
        |namespace| {
            let host = Host::of(namespace);
            host.forwards(0);
            for [behind, out, _] in NEIGHBOURS {
                for from in [behind, out] {
                    host.assert_answered(from, "srv0", THERE, "it does not forward");
                }
            }
        },
    );
}
