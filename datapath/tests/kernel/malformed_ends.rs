// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same packets at the programs about the ends of connections, where each of the four things
//! that they do waits for its segment: what is malformed is passed as it is, nobody is answered,
//! nothing is counted, and whatever waits goes on waiting.

use std::io::Read;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::common::pair::numbers_of;
use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::strict;
use crate::common::wire::{Tap, hardware_address};
use crate::common::{Ran, Runner};
use crate::malformed::{dressed, mangle};
use fastrand::Rng;
use libbpf_rs::{MapCore, MapFlags};
use tidegate_datapath::array::write_one;
use tidegate_datapath::configuration::Configuration;
use tidegate_datapath::plain::{Plain, bytes_of};
use tidegate_datapath::raw::*;
use tidegate_datapath::{clock, time_wait};
use tidegate_lab::{Link, Namespace};
use tidegate_policy::raw::*;

const PACKETS: u32 = 500_000;
/// Whole ones.
const WHOLE: u32 = 400;

/// What a tc program returns: the next one decides, the packet is dropped, or goes elsewhere.
const NEXT: u32 = u32::MAX;

const HELD: u16 = 9001;
const LEAVING: u16 = 9002;
const CLOSING: u16 = 9003;
const CONNECTING: u16 = 9004;

/// A host whose sockets wait for the segments that end them, over both families.
struct Host {
    guards: Guards,
    /// What the programs act on, as it comes in.
    incoming: Vec<Segment>,
    /// And as it leaves.
    outgoing: Vec<Segment>,
    leaving: Vec<(tg_tuple, tg_leaving)>,
    /// Their own sockets, and the clients' of those.
    _sockets: Vec<TcpStream>,
    _cable: Link,
}

fn words(address: IpAddr) -> [u32; 4] {
    let mut words = [0; 4];
    match address {
        IpAddr::V4(v4) => words[0] = u32::from_ne_bytes(v4.octets()),
        IpAddr::V6(v6) => {
            for (word, bytes) in words.iter_mut().zip(v6.octets().chunks(4)) {
                *word = u32::from_ne_bytes(bytes.try_into().unwrap());
            }
        }
    }
    words
}

fn tuple(from: SocketAddr, to: SocketAddr) -> tg_tuple {
    tg_tuple {
        saddr: words(from.ip()),
        daddr: words(to.ip()),
        sport: from.port().to_be(),
        dport: to.port().to_be(),
        is_ipv6: to.is_ipv6().into(),
    }
}

fn segment(from: SocketAddr, to: SocketAddr, flags: u8, seq: u32, ack: u32) -> Segment {
    Segment::syn(from, to).with(|s| (s.flags, s.seq, s.ack) = (flags, seq, ack))
}

impl Host {
    fn new(namespace: &Namespace) -> Self {
        let configuration = Configuration {
            destinations: ["10.9.1.8/32", "fd09:1::8/128"]
                .map(|network| {
                    let rules = tg_tw_rules { negotiate: TG_TW_SERVER, insist: 1, close_swap: 0 };
                    (network.parse().unwrap(), rules)
                })
                .to_vec(),
            ..Default::default()
        };
        let clients = Namespace::new("clients").unwrap();
        let mut host = Host {
            guards: Guards::with(&configuration, 1),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            leaving: Vec::new(),
            _sockets: Vec::new(),
            _cable: cable(namespace, &clients),
        };
        host.holds();
        let mut ports = Box::new([0_u32; 65_536]);
        ports[usize::from(CLOSING)] = 1;
        host.write("closing_ports", &*ports);
        for (own, peer, absent) in [(V4, "10.9.1.7", "10.9.1.8"), (V6, "fd09:1::7", "fd09:1::8")] {
            host.leaves(namespace, &clients, at(own, LEAVING), peer);
            host.closes(&clients, at(own, CLOSING));
            host.connects(at(own, CONNECTING), at(absent, CONNECTING));
        }
        host
    }

    fn write<T: Plain>(&self, map: &str, value: &T) {
        write_one(&self.guards.programs, map, 0, value).unwrap();
    }

    /// Pairs are held that no SYN may open, from either end.
    fn holds(&mut self) {
        let until_ns = clock::monotonic_ns() + 3_600_000_000_000;
        let mut block = tg_held_block::default();
        for (cell, (own, peer)) in block.cells.iter_mut().zip([(V4, "10.9.1.7"), (V6, "fd09:1::7")])
        {
            let (own, peer) = (at(own, HELD), at(peer, HELD));
            *cell = tg_held {
                until_ns,
                own: words(own.ip()),
                peer: words(peer.ip()),
                own_port: own.port().to_be(),
                peer_port: peer.port().to_be(),
                snd_nxt: 5000,
                rcv_nxt: 6000,
                flags: if own.is_ipv6() { TG_HELD_IPV6 } else { 0 },
                ..Default::default()
            };
            self.incoming.push(segment(peer, own, SYN, 6000, 0));
            self.outgoing.push(segment(own, peer, SYN, 5000, 0));
            self.outgoing.push(segment(own, peer, RST, 5000, 0));
        }
        self.write(time_wait::TABLE, &block);
        self.write("held_until_ns", &until_ns);
    }

    /// An accepted connection, and its client.
    fn accepted(clients: &Namespace, own: SocketAddr) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(own).unwrap();
        let client = clients.run(move || connect(own));
        (listener.accept().unwrap().0, client)
    }

    /// A connection that nobody has any more, and whose TIME-WAIT is the other end's: it waits
    /// for a FIN.
    fn leaves(&mut self, namespace: &Namespace, clients: &Namespace, own: SocketAddr, peer: &str) {
        let (server, client) = Self::accepted(clients, own);
        let from = client.local_addr().unwrap();
        assert_eq!(from.ip().to_string(), peer);
        let (expected, next) = numbers_of(&server);
        drop(server);
        eventually("our FIN is acknowledged", || {
            let waiting = namespace.output(namespace.command("ss -Htan state fin-wait-2")).unwrap();
            waiting.contains(&from.to_string())
        });
        let leaving = tg_leaving { fin_seq: next, ..Default::default() };
        self.leaving.push((tuple(from, own), leaving));
        self.incoming.push(segment(from, own, FIN | ACK, expected, next.wrapping_add(1)));
        self._sockets.push(client);
    }

    /// A client that closes second, and will swap: it waits for an ACK of its FIN, which nobody
    /// sends, for the other end is away.
    fn closes(&mut self, clients: &Namespace, own: SocketAddr) {
        let (mut server, client) = Self::accepted(clients, own);
        let from = client.local_addr().unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        let (expected, next) = numbers_of(&server);
        let agreement =
            tg_agreement { us: TG_TW_CLIENT, close_swap: 1, fin_seq: next, ..Default::default() };
        self.agree(&server, &agreement);
        let bits = if from.is_ipv4() { 24 } else { 64 };
        clients.ip(&format!("address del {}/{bits} dev cli0", from.ip())).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        self.incoming.push(segment(from, own, ACK, expected, next.wrapping_add(1)));
        self._sockets.extend([server, client]);
    }

    /// A client that insists on its choice, and waits for a SYN/ACK: this one names another.
    fn connects(&mut self, own: SocketAddr, to: SocketAddr) {
        let socket = connecting(own, to);
        let agreement =
            tg_agreement { us: TG_TW_CLIENT, offered: TG_TW_SERVER, ..Default::default() };
        self.agree(&socket, &agreement);
        let (_, next) = numbers_of(&socket);
        let mut option = vec![TG_TW_KIND as u8, 0, TG_TW_EXID_HIGH as u8, TG_TW_EXID_LOW as u8];
        match own.ip() {
            IpAddr::V4(v4) => option.extend(v4.octets()),
            IpAddr::V6(v6) => option.extend(v6.octets()),
        }
        option[1] = option.len() as u8;
        self.incoming.push(segment(to, own, SYN | ACK, 7000, next).with(|s| s.options = option));
        self._sockets.push(socket);
    }

    fn agree(&self, socket: &TcpStream, agreement: &tg_agreement) {
        let map = self.guards.programs.map("agreements");
        map.update(&socket.as_raw_fd().to_ne_bytes(), bytes_of(agreement), MapFlags::ANY).unwrap();
    }

    /// As though nothing had come: what ends a connection is forgotten.
    fn wait(&self) {
        let map = self.guards.programs.map(time_wait::LEAVING[0]);
        for (tuple, leaving) in &self.leaving {
            map.update(bytes_of(tuple), bytes_of(leaving), MapFlags::ANY).unwrap();
        }
    }

    fn counted(&self) -> [u64; TG_TW_COUNTS as usize] {
        time_wait::counts(&self.guards.programs).unwrap()
    }

    /// All that stands in the maps about connections that may end.
    fn stands(&self) -> Vec<Vec<u8>> {
        let all = [time_wait::TABLE, time_wait::LEAVING[0], time_wait::LEAVING[1], "closing_ports"];
        let values = |name: &str| {
            let map = self.guards.programs.map(name);
            let value = |key: Vec<u8>| [map.lookup(&key, MapFlags::ANY).unwrap().unwrap(), key];
            map.keys().flat_map(value).collect::<Vec<_>>()
        };
        all.iter().flat_map(|name| values(name)).collect()
    }
}

/// Clients that answer, and by an address each those that do not.
fn cable(namespace: &Namespace, clients: &Namespace) -> Link {
    let cable = Link::between(namespace, "srv0", clients, "cli0").unwrap();
    cable.up().unwrap();
    for (network, client, server) in [
        ("10.9.1.0/24", "10.9.1.7/24", "10.9.0.1/32"),
        ("fd09:1::/64", "fd09:1::7/64", "fd09::1/128"),
    ] {
        cable.a().add_route(network, None).unwrap();
        cable.b().add_address(client).unwrap();
        cable.b().add_route(server, None).unwrap();
    }
    // None is asked for: a host does not answer for the IPv6 addresses of another interface, and
    // tells itself, by ICMP on loopback, of a neighbor that is away.
    let link_of = |namespace, name| {
        hardware_address(namespace, name).map(|byte| format!("{byte:02x}")).join(":")
    };
    let (server, client) = (link_of(namespace, "srv0"), link_of(clients, "cli0"));
    clients.ip(&format!("neighbor add fd09::1 lladdr {server} dev cli0")).unwrap();
    let absent = "02:00:00:00:00:08";
    for (peer, link) in [
        ("10.9.1.7", client.as_str()),
        ("fd09:1::7", &client),
        ("10.9.1.8", absent),
        ("fd09:1::8", absent),
    ] {
        namespace.ip(&format!("neighbor add {peer} lladdr {link} dev srv0")).unwrap();
    }
    cable
}

/// A whole segment of a connection that is waiting: the programs may do with it what they do.
fn may_be_judged(frame: &[u8], waiting: &[Segment]) -> bool {
    strict::read(frame)
        .is_some_and(|found| waiting.iter().any(|s| (s.from, s.to) == (found.from, found.to)))
}

/// Malformed segments and then whole ones, by BPF_PROG_TEST_RUN.
fn malformed_pass_and_whole_do_not(
    test: &'static str,
    program: &'static str,
    seed: u64,
    of: fn(&Host) -> &[Segment],
) {
    in_a_namespace(test, move |namespace| {
        let host = Host::new(namespace);
        let waiting = of(&host);
        host.wait();
        let fd = host.guards.program(program);
        let tap = Tap::open("lo");
        let mut runner = Runner::new();
        let mut rng = Rng::with_seed(seed);
        let (mut malformed, begun) = (0, Instant::now());
        let before = host.stands();
        for number in 0..PACKETS {
            let segment = waiting[rng.usize(..waiting.len())].clone();
            let frame = dressed(&mut rng, segment).bytes();
            let frame = mangle(&mut rng, frame);
            if may_be_judged(&frame, waiting) {
                continue;
            }
            let Ok(ran) = runner.run(fd, &frame, &[]) else {
                // Too short for the kernel to run anything.
                continue;
            };
            malformed += 1;
            let what = format!("seed {seed}, packet {number}: {frame:02x?}");
            assert_eq!(ran, Ran { returned: NEXT, packet: &frame }, "{what}");
            assert_eq!(tap.next(Duration::ZERO), None, "an answer to {what}");
        }
        let took = begun.elapsed().as_secs_f32();
        println!("{program}: {malformed} of {PACKETS} are malformed, in {took:.1} s");
        assert!(malformed > PACKETS / 3);
        assert_eq!(host.counted(), [0; TG_TW_COUNTS as usize], "nothing is counted");
        assert_eq!(host.stands(), before, "and all goes on waiting");

        // And the programs do act on each of these, were it whole.
        for segment in waiting {
            let mut acted = 0;
            for _ in 0..WHOLE {
                host.wait();
                let frame = dressed(&mut rng, segment.clone()).bytes();
                let ran = runner.run(fd, &frame, &[]).unwrap();
                let passed = ran == Ran { returned: NEXT, packet: &frame };
                let answers = std::iter::from_fn(|| tap.next(Duration::ZERO)).count();
                acted += u32::from(!passed || answers > 0);
            }
            assert!(acted > WHOLE / 3, "{program} acts on {acted} of {WHOLE}: {segment:?}");
        }
    });
}

#[test]
fn what_comes_in_malformed_ends_no_connection() {
    const TEST: &str = "what_comes_in_malformed_ends_no_connection";
    malformed_pass_and_whole_do_not(TEST, "tidegate_ends_in", 5, |host| &host.incoming);
}

#[test]
fn what_leaves_malformed_ends_no_connection() {
    const TEST: &str = "what_leaves_malformed_ends_no_connection";
    malformed_pass_and_whole_do_not(TEST, "tidegate_ends_out", 6, |host| &host.outgoing);
}
