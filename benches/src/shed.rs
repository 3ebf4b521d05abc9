// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What persistent dropping costs a SYN, by BPF_PROG_TEST_RUN.

use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::BorrowedFd;

use tidegate_datapath::programs::Programs;
use tidegate_policy::raw::{
    TG_KEY_CONNECTION, TG_RBD, TG_SBPD, TG_SHED_TURN_NS, TG_SLPD, tg_shed_rules,
};
use tidegate_policy::shed::blocks;

use crate::guard::{self, PORT};
use crate::numbers::Rounds;
use crate::segment;
use crate::test_run::{self, Own};

const ROUNDS: usize = 11;
const REPEAT: i32 = 400_000;
/// Nobody of this host has it.
const BEYOND: &str = "198.51.100.7";
const ROOMY: &str = "127.0.0.2";

const TURN_NS: u64 = TG_SHED_TURN_NS;
/// The middle of a turn of K(t), and a moment after it turned.
const CALM: u64 = 6_400_000 * TURN_NS + TURN_NS / 2;
const TURNED: u64 = 6_400_000 * TURN_NS + 5_000_000_000;

/// What is told of a row: its name, the rounds, the target.
pub type Row = (String, Rounds, Option<f64>);

/// All or none. The same SYN again and again is one client that makes all requests, and none
/// dropped is a target missed; but so small a p* is never judged.
fn rules(policy: u32, dropped: bool) -> tg_shed_rules {
    let all = tg_shed_rules::new(policy, TG_KEY_CONNECTION, 1.0, 5).with_table(10_000, 1.2);
    if dropped { all } else { tg_shed_rules { p_x32: 1, ..all } }
}

/// One hook: the program that decides there, and the one that does nothing.
struct Hook<'a> {
    name: &'static str,
    program: &'static str,
    /// Where every guard is a path.
    of_paths: &'static str,
    nothing: BorrowedFd<'a>,
    pass: u32,
    drop: u32,
}

impl Hook<'_> {
    fn gross_ns(&self, programs: &Programs, name: &str, syn: &[u8], dropped: bool) -> f64 {
        let program = programs.program(name).expect("a program");
        let (ns, returned) = test_run::test_run(program, syn, REPEAT);
        assert_eq!(returned, if dropped { self.drop } else { self.pass }, "another verdict");
        f64::from(ns)
    }

    fn nothing_ns(&self, syn: &[u8]) -> f64 {
        f64::from(test_run::test_run(self.nothing, syn, REPEAT).0)
    }
}

fn v4(address: &str) -> SocketAddrV4 {
    SocketAddrV4::new(address.parse().expect("an address"), PORT)
}

/// On a path: the whole of what a SYN costs.
fn on_a_path(hook: &Hook<'_>, rows: &mut Vec<Row>) {
    let syn = segment::syn([0; 6], v4(BEYOND));
    let whole = [
        ("RBD", TG_RBD, CALM, Some(40.0)),
        ("SLPD", TG_SLPD, CALM, Some(40.0)),
        ("SLPD after a turn", TG_SLPD, TURNED, Some(70.0)),
        ("SBPD", TG_SBPD, CALM, Some(70.0)),
    ];
    for (name, policy, clock, target_ns) in whole {
        for (dropped, what) in [(true, "dropped"), (false, "let through")] {
            let path = Some(BEYOND.parse().expect("an address"));
            let programs = guard::shedder(rules(policy, dropped), path);
            guard::set_clock(&programs, clock);
            let rounds = (0..ROUNDS)
                .map(|_| {
                    hook.gross_ns(&programs, hook.of_paths, &syn, dropped) - hook.nothing_ns(&syn)
                })
                .collect();
            let target_ns = target_ns.filter(|_| hook.program == "tidegate_driver");
            rows.push((format!("path, {name}, {what}, {}", hook.name), Rounds(rounds), target_ns));
        }
    }
}

/// p* controlled: what it costs more, where nobody is shed since there is room.
fn controlled() -> tg_shed_rules {
    let auto = tg_shed_rules::automatic(TG_SLPD, TG_KEY_CONNECTION, 0, 5);
    tg_shed_rules { blocks: blocks(10_000, 1.2), ..auto }
}

/// On a listener with room: what a SYN costs with shedding more than without.
fn on_a_listener(hook: &Hook<'_>, rows: &mut Vec<Row>) {
    let syn = segment::syn([0; 6], v4(ROOMY));
    let without = guard::shedder(tg_shed_rules::default(), None);
    let gross_ns = |programs: &Programs| hook.gross_ns(programs, hook.program, &syn, false);
    for (name, rules, target_ns) in [
        ("SLPD", rules(TG_SLPD, false), Some(40.0)),
        ("SBPD", rules(TG_SBPD, false), Some(70.0)),
        ("SLPD with p controlled", controlled(), None),
    ] {
        let with = guard::shedder(rules, None);
        guard::set_clock(&with, CALM);
        let rounds = (0..ROUNDS).map(|_| gross_ns(&with) - gross_ns(&without)).collect();
        let target_ns = target_ns.filter(|_| hook.program == "tidegate_driver");
        let name = format!("listener, {name} alone, let through, {}", hook.name);
        rows.push((name, Rounds(rounds), target_ns));
    }
    let rounds = (0..ROUNDS).map(|_| gross_ns(&without) - hook.nothing_ns(&syn)).collect();
    rows.push((format!("listener, no shedding, room, {}", hook.name), Rounds(rounds), None));
}

/// Measures every policy at both hooks.
pub fn measure(own: &Own) -> Vec<Row> {
    let _listener = guard::listener(SocketAddr::V4(v4(ROOMY)), 128);
    let hooks = [
        Hook {
            name: "XDP",
            program: "tidegate_driver",
            of_paths: "tidegate_path",
            nothing: own.program("empty_xdp"),
            pass: 2,
            drop: 1,
        },
        Hook {
            name: "tc",
            program: "tidegate_ip",
            of_paths: "tidegate_ip",
            nothing: own.program("empty_tc"),
            pass: u32::MAX,
            drop: 2,
        },
    ];
    let mut rows = Vec::new();
    for hook in &hooks {
        on_a_path(hook, &mut rows);
        on_a_listener(hook, &mut rows);
    }
    rows
}
