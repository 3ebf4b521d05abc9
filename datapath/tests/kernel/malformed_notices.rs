// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same packets at the agent, of which a client waits for a refusal: no malformed one is taken
//! for a notice, and each goes on as it is.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::common::Runner;
use crate::common::pair::numbers_of;
use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::strict;
use crate::common::wire::{Wire, hardware_address};
use crate::malformed::{dressed, mangle};
use fastrand::Rng;
use tidegate_datapath::agent::{Agent, Counts, Destination, Reader};
use tidegate_datapath::array::write_one;
use tidegate_datapath::cgroup;
use tidegate_datapath::per_cpu;
use tidegate_datapath::programs::{Objects, Programs};
use tidegate_datapath::raw::*;
use tidegate_lab::{Link, Namespace};

/// By BPF_PROG_TEST_RUN.
const PACKETS: u32 = 500_000;
/// Over a cable, through the whole kernel: so many, to sockets of their own each time.
const FRAMES: u32 = 500;
const BATCHES: u16 = 200;

const SERVERS: [&str; 2] = ["10.9.1.7", "fd09:1::7"];

/// The refusal with all that may be said, a minute, of a SYN that `ack` stands behind.
fn notice(from: SocketAddr, to: SocketAddr, ack: u32) -> Segment {
    let ticks = 6000_u16.to_be_bytes();
    Segment::syn(from, to).with(|s| {
        (s.flags, s.seq, s.ack) = (RST | ACK, 0, ack);
        s.options = vec![253, 6, 0x54, 0x42, ticks[0], ticks[1], 1, 1];
        s.payload = vec![0x33, 0xaa, 0, 10, 0, 0, 0, 0];
    })
}

/// By BPF_PROG_TEST_RUN the program sees packets without a socket, so it never gets to hear one:
/// this is about its parser. The next test has the sockets.
#[test]
fn the_agent_reads_anything_and_passes_it() {
    in_a_namespace("the_agent_reads_anything_and_passes_it", |_| {
        let programs = Programs::load(Objects::Agent, BTreeMap::new()).unwrap();
        let agent = tg_agent { netns_cookie: cgroup::netns_cookie().unwrap() };
        write_one(&programs, "agent", 0, &agent).unwrap();
        let program = programs.program("tidegate_hear").unwrap();
        let mut runner = Runner::new();
        let mut rng = Rng::with_seed(7);
        let (mut passed, begun) = (0, Instant::now());
        for number in 0..PACKETS {
            let (server, own) = [(SERVERS[0], V4), (SERVERS[1], V6)][rng.usize(..2)];
            let segment = notice(at(server, FULL), at(own, ROOMY), rng.u32(..));
            let frame = dressed(&mut rng, segment).bytes();
            let frame = mangle(&mut rng, frame);
            let Ok(ran) = runner.run(program, &frame, &[]) else {
                // Too short for the kernel to run anything.
                continue;
            };
            assert_eq!(ran.returned, 1, "seed 7, packet {number}: {frame:02x?}");
            // Of what stands before the IP header the kernel itself makes zeros.
            assert_eq!(ran.packet[14..], frame[14..], "seed 7, packet {number}: {frame:02x?}");
            passed += 1;
        }
        let took = begun.elapsed().as_secs_f32();
        println!("tidegate_hear: {passed} of {PACKETS} packets in {took:.1} s");
        assert!(passed > PACKETS / 2);
        for what in 0..TG_AGENT_COUNTS {
            let count: u64 =
                per_cpu::read::<u64>(&programs, "notice_counts", what).unwrap().iter().sum();
            assert_eq!(count, 0, "nothing was heard");
        }
    });
}

#[test]
fn on_a_cable_no_malformed_notice_is_obeyed() {
    in_a_namespace("on_a_cable_no_malformed_notice_is_obeyed", |namespace| {
        let servers = Namespace::new("servers").unwrap();
        let cable = Link::between(namespace, "cli0", &servers, "srv0").unwrap();
        cable.up().unwrap();
        for (network, server) in [("10.9.1.0/24", SERVERS[0]), ("fd09:1::/64", SERVERS[1])] {
            cable.a().add_route(network, None).unwrap();
            let neighbor = format!("neighbor add {server} lladdr 02:00:00:00:00:07 dev cli0");
            namespace.ip(&neighbor).unwrap();
        }
        let link_to = hardware_address(namespace, "cli0");
        let mut agent = Agent::load().unwrap();
        let longest = Duration::from_secs(60);
        let obeyed = SERVERS.map(|server| {
            let network = format!("{server}/{}", if server.contains(':') { 128 } else { 32 });
            Destination { network: network.parse().unwrap(), port: None, longest }
        });
        agent.obey(&obeyed).unwrap();
        agent.attach().unwrap();
        let ids = agent.map_ids().unwrap();
        let ids: Vec<_> = ids.into_iter().map(|(name, id)| (name.to_owned(), id)).collect();
        let reader = Reader::open(&ids).unwrap();

        // A segment that is odd but good (an atomic fragment, RFC 6946) may end a socket: others
        // wait soon.
        let (mut sent, mut wait_on, begun) = (0, 0, Instant::now());
        for batch in 0..BATCHES {
            let waiting = waiting(link_to, 10_000 + batch);
            let notices = waiting.clone().map(|(_, notice)| notice);
            sent += servers.run(move || send_malformed(&notices, batch.into()));
            let is_refused = |socket: &TcpStream| socket.take_error().unwrap().is_some();
            wait_on += waiting.iter().filter(|(socket, _)| !is_refused(socket)).count();
        }
        let took = begun.elapsed().as_secs_f32();
        println!("{sent} malformed frames in {took:.1} s, {wait_on} sockets still wait");
        assert!(sent > u32::from(BATCHES) * FRAMES / 2, "the kernel took {sent}");
        assert!(wait_on > usize::from(BATCHES), "{wait_on} sockets still wait");
        assert_eq!(reader.counts().unwrap(), Counts::default(), "nothing is heard");
        assert_eq!(reader.avoided().unwrap(), [], "nobody is avoided");

        // And the true ones are obeyed.
        let waiting = waiting(link_to, 9_999);
        let notices = waiting.clone().map(|(_, notice)| notice);
        servers.run(move || {
            let wire = Wire::open("srv0");
            notices.iter().for_each(|notice| assert!(wire.send(&notice.bytes())));
        });
        eventually("both are heard", || reader.counts().unwrap().obeyed == 2);
        assert_eq!(reader.counts().unwrap(), Counts { obeyed: 2, ..Default::default() });
        assert_eq!(reader.avoided().unwrap().len(), 2);
    });
}

/// A client over each family that waits for an answer from a port, and the refusal that would be
/// one.
fn waiting(link_to: [u8; 6], port: u16) -> [(Rc<TcpStream>, Segment); 2] {
    [(V4, SERVERS[0]), (V6, SERVERS[1])].map(|(own, server)| {
        let (own, to) = (at(own, port), at(server, FULL));
        let socket = connecting(own, to);
        let notice = notice(to, own, numbers_of(&socket).1).with(|s| s.link_to = link_to);
        (Rc::new(socket), notice)
    })
}

fn send_malformed(notices: &[Segment], seed: u64) -> u32 {
    let wire = Wire::open("srv0");
    let mut rng = Rng::with_seed(seed);
    let mut sent = 0;
    for _ in 0..FRAMES {
        let segment = notices[rng.usize(..notices.len())].clone();
        let frame = dressed(&mut rng, segment).bytes();
        let frame = mangle(&mut rng, frame);
        // A whole segment is the socket's own business.
        if strict::read(&frame).is_none() {
            sent += u32::from(wire.send(&frame));
        }
    }
    sent
}
