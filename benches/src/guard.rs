// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard that is measured, and the listener behind it.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, MapFlags};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
    sockopt,
};
use tidegate_datapath::array::write_one;
use tidegate_datapath::clock;
use tidegate_datapath::configuration::{self, Configuration, Guarded};
use tidegate_datapath::control::{self, LetsIn};
use tidegate_datapath::counters;
use tidegate_datapath::programs::{Objects, Programs, Sizes};
use tidegate_datapath::raw::TG_HOOK_AUTO;
use tidegate_policy::names::REASONS;
use tidegate_policy::raw::{tg_cookie_keys, tg_key, tg_rules, tg_shed_rules};

/// The port that is guarded.
pub const PORT: u16 = 8080;

/// Programs that guard the port, refusing without a limit: `refusal_cost_ns` is 0.
pub fn guard(syn: u32) -> Programs {
    let programs = Programs::load(Objects::Guard, Default::default()).expect("they load");
    refuse(&programs, syn);
    programs
}

/// The same with any rules.
pub fn with_rules(rules: tg_rules) -> Programs {
    let programs = Programs::load(Objects::Guard, Default::default()).expect("they load");
    put(&programs, Guarded { port: PORT, rules, hook: TG_HOOK_AUTO, ..Default::default() });
    programs
}

/// Puts another refusal in force.
pub fn refuse(programs: &Programs, syn: u32) {
    let rules = tg_rules { syn, refusal_cost_ns: 0, ..Default::default() };
    put(programs, Guarded { port: PORT, rules, hook: TG_HOOK_AUTO, ..Default::default() });
}

fn put(programs: &Programs, guarded: Guarded) {
    let keys =
        tg_cookie_keys { current: tg_key { k0: 1, k1: 2 }, previous: tg_key { k0: 3, k1: 4 } };
    let shed_key = tg_key { k0: 5, k1: 6 };
    let guards = vec![guarded];
    configuration::write(programs, &Configuration { guards, keys, shed_key, ..Default::default() })
        .expect("one guard fits");
    control::write_clock(programs, LetsIn::All).expect("the clock is written");
}

/// Programs that shed on the port, as a listener of this host or on the path to `address`.
pub fn shedder(shed: tg_shed_rules, path: Option<IpAddr>) -> Programs {
    let programs = Programs::load_sized(
        Objects::Guard,
        Default::default(),
        Sizes { shed_blocks: shed.blocks, ..Default::default() },
    )
    .expect("they load");
    let hook = TG_HOOK_AUTO;
    let is_path = path.is_some();
    put(
        &programs,
        Guarded { address: path, port: PORT, hook, shed, is_path, ..Default::default() },
    );
    programs
}

/// Sets the wall clock that the programs know, so that a turn of persistent dropping is where it
/// should be.
pub fn set_clock(programs: &Programs, wall_ns: u64) {
    let mut control = control::read(programs).expect("a control record");
    control.clock_offset_ns = wall_ns.wrapping_sub(clock::monotonic_ns());
    write_one(programs, "control", 0, &control).expect("the control record is written");
}

/// Sets until when ACKs are watched; 0 is calm.
pub fn watch(programs: &Programs, until_ns: u64) {
    programs
        .map("watch_until_ns")
        .update(&0u32.to_ne_bytes(), &until_ns.to_ne_bytes(), MapFlags::ANY)
        .expect("the first guard's element");
}

/// Packets that the first guard counted for a reason, whatever the verdict.
pub fn counted(programs: &Programs, reason: &str) -> u64 {
    let counts = counters::read(programs, 0).expect("counters");
    let at = REASONS.iter().position(|name| *name == reason).expect("a reason");
    counts.packets[at].iter().sum()
}

/// A listening socket with this backlog.
pub fn listener(address: SocketAddr, backlog: i32) -> TcpListener {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .expect("a socket");
    setsockopt(&fd, sockopt::ReuseAddr, &true).expect("SO_REUSEADDR");
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address)).expect("the address is free");
    listen(&fd, Backlog::new(backlog).expect("a backlog")).expect("listen");
    fd.into()
}
