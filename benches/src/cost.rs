// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nanoseconds a packet, by BPF_PROG_TEST_RUN.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;

use tidegate_datapath::programs::Programs;
use tidegate_lab::Namespace;
use tidegate_policy::raw::{TG_SYN_COOKIE, TG_SYN_RESET};

use crate::fin;
use crate::guard::{self, PORT};
use crate::host;
use crate::numbers::{Rounds, verdict};
use crate::segment;
use crate::shed::{self, Row};
use crate::test_run::{self, Own};

const ROUNDS: usize = 11;
const REPEAT: i32 = 400_000;

const HOW: &str = "\
Cost of a packet, net, by BPF_PROG_TEST_RUN
  An ACK leaves the programs as it came: the same one is run again and again, and an empty
  program of the same type, run in the same round, is subtracted.
  A SYN is overwritten by its answer. Before each run a program of our own grows the packet back
  to 74 bytes, writes the whole SYN over it and calls the program measured (tail call); the same
  with an empty program behind it, run in the same round, is subtracted. The bytes that the
  answer is shorter by are thereby charged to the program measured. The queue is full, its
  length is read live for every packet, refusal_cost_ns is 0. IPv4, Linux's options.
  A FIN that ends its connection leaves as a RST, after another that is really sent, by loopback: it
  is put back as a SYN is.
  A SYN that is shed, or let through on a path, stays as it came: the same SYN again and again, less
  an empty program. Shedding alone is what a SYN costs with it less what it costs without.
";

struct Case<'a> {
    name: &'static str,
    program: BorrowedFd<'a>,
    subtract: BorrowedFd<'a>,
    packet: &'a [u8],
    returns: u32,
    target_ns: Option<f64>,
    before: Box<dyn Fn() + 'a>,
}

impl Case<'_> {
    fn round(&self) -> f64 {
        (self.before)();
        let (nothing_ns, _) = test_run::test_run(self.subtract, self.packet, REPEAT);
        (self.before)();
        let (gross_ns, returned) = test_run::test_run(self.program, self.packet, REPEAT);
        assert_eq!(returned, self.returns, "{}: another verdict", self.name);
        f64::from(gross_ns) - f64::from(nothing_ns)
    }
}

/// Measures and prints; whether every target was met.
pub fn measure() -> bool {
    let namespace = Namespace::new("cost").expect("a namespace");
    namespace.ip("link set lo mtu 1500").expect("lo is there");
    namespace.run(measure_here)
}

fn measure_here() -> bool {
    host::pin(0, 0);
    let address: SocketAddr = format!("127.0.0.1:{PORT}").parse().expect("an address");
    let SocketAddr::V4(v4) = address else { unreachable!("written above") };
    let listener = guard::listener(address, 0);
    let client = TcpStream::connect(address).expect("there is room for one");
    let (_server, _) = listener.accept().expect("it has come");
    let _waits = TcpStream::connect(address).expect("there is room for one again");
    let syn = segment::syn([0; 6], v4);
    let ack = segment::ack(client.local_addr().expect("connected"), address);

    let own = Own::load();
    let reset = guard::guard(TG_SYN_RESET);
    let cookie = guard::guard(TG_SYN_COOKIE);
    let mut rows = answers(&own, &syn, &reset, &cookie);
    rows.extend(established(&own, &ack, &reset));
    rows.extend(fin::measure(&own));
    rows.extend(shed::measure(&own));
    println!("{HOW}");
    table(&rows)
}

/// What an answer to a SYN costs, at either hook.
fn answers(own: &Own, syn: &[u8], reset: &Programs, cookie: &Programs) -> Vec<Row> {
    own.ask(syn, 0);
    let mut rows = Vec::new();
    for (kind, wrapper, empty, map, name) in [
        ("XDP", "fresh_xdp", "empty_xdp", "next_xdp", "tidegate_driver"),
        ("tc", "fresh_tc", "empty_tc", "next_tc", "tidegate_ip"),
    ] {
        for (what, programs, target_ns) in
            [("SYN -> RST", reset, 80.0), ("SYN -> cookie SYN/ACK", cookie, 200.0)]
        {
            let measured = programs.program(name).expect("a program");
            let rounds = (0..ROUNDS).map(|_| {
                own.then(map, own.program(empty));
                let (nothing_ns, _) = test_run::test_run(own.program(wrapper), syn, REPEAT);
                own.then(map, measured);
                let (gross_ns, returned) = test_run::test_run(own.program(wrapper), syn, REPEAT);
                let sent = if kind == "XDP" { 3 } else { 7 };
                assert_eq!(returned, sent, "{what}, {kind}: it was not answered");
                f64::from(gross_ns) - f64::from(nothing_ns)
            });
            let target_ns = (kind == "XDP").then_some(target_ns);
            rows.push((format!("{what}, {kind}"), Rounds(rounds.collect()), target_ns));
        }
    }
    rows
}

/// What a segment of a connection that stands costs.
fn established(own: &Own, ack: &[u8], reset: &Programs) -> Vec<Row> {
    let program = |programs: &'static str| reset.program(programs).expect("a program");
    let calm = || guard::watch(reset, 0);
    let trouble = || guard::watch(reset, u64::MAX >> 1);
    let cases = [
        Case {
            name: "established, calm, XDP",
            program: program("tidegate_driver"),
            subtract: own.program("empty_xdp"),
            packet: ack,
            returns: 2,
            target_ns: Some(15.0),
            before: Box::new(calm),
        },
        Case {
            name: "established, calm, tc",
            program: program("tidegate_ip"),
            subtract: own.program("empty_tc"),
            packet: ack,
            returns: u32::MAX,
            target_ns: Some(15.0),
            before: Box::new(calm),
        },
        // Beside the rows above, where who holds TIME-WAIT is decided; a packet passes one of them.
        Case {
            name: "established, TIME-WAIT negotiated, tc in",
            program: program("tidegate_ends_in"),
            subtract: own.program("empty_tc"),
            packet: ack,
            returns: u32::MAX,
            target_ns: Some(15.0),
            before: Box::new(calm),
        },
        Case {
            name: "established, TIME-WAIT negotiated, tc out",
            program: program("tidegate_ends_out"),
            subtract: own.program("empty_tc"),
            packet: ack,
            returns: u32::MAX,
            target_ns: Some(15.0),
            before: Box::new(calm),
        },
        Case {
            name: "established, listener in trouble, XDP",
            program: program("tidegate_driver"),
            subtract: own.program("empty_xdp"),
            packet: ack,
            returns: 2,
            target_ns: None,
            before: Box::new(trouble),
        },
        Case {
            name: "established, listener in trouble, tc",
            program: program("tidegate_ip"),
            subtract: own.program("empty_tc"),
            packet: ack,
            returns: u32::MAX,
            target_ns: None,
            before: Box::new(trouble),
        },
    ];
    let row = |case: &Case<'_>| {
        let rounds = Rounds((0..ROUNDS).map(|_| case.round()).collect());
        (case.name.to_owned(), rounds, case.target_ns)
    };
    cases.iter().map(row).collect()
}

/// Whether every target was met.
fn table(rows: &[Row]) -> bool {
    let mut met = true;
    println!("{:<44} {:>7} {:>12} {:>8}", "ns, net", "median", "min-max", "target");
    for (name, rounds, target_ns) in rows {
        let (least, most) = rounds.range();
        let (target, verdict) = match target_ns {
            Some(target_ns) => {
                met &= rounds.median() <= *target_ns;
                (format!("<= {target_ns}"), verdict(rounds.median() <= *target_ns))
            }
            None => (String::new(), ""),
        };
        let range = format!("{least:.0}-{most:.0}");
        println!("{name:<44} {:>7.0} {range:>12} {target:>8}  {verdict}", rounds.median());
    }
    println!();
    met
}
