// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF_PROG_TEST_RUN, the measurements' own programs, and a guard over both.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use etherparse::{PacketBuilder, TcpOptionElement};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
    sockopt,
};
use nix::unistd::Pid;
use tidegate_datapath::array::write_one;
use tidegate_datapath::clock;
use tidegate_datapath::configuration::{self, Configuration, Guarded};
use tidegate_datapath::control;
use tidegate_datapath::counters;
use tidegate_datapath::programs::{Objects, Programs, Sizes};
use tidegate_datapath::raw::TG_HOOK_AUTO;
use tidegate_policy::names::REASONS;
use tidegate_policy::raw::{tg_cookie_keys, tg_key, tg_rules, tg_shed_rules};

/// The port that is guarded.
pub const PORT: u16 = 8080;

/// What the figures were measured on.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_default();
    format!("Linux {}, {cpu}\n", read("/proc/sys/kernel/osrelease").trim())
}

/// Has the calling thread, or another one, run on one processor.
pub fn pin(thread: i32, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).expect("a processor of this machine");
    sched_setaffinity(Pid::from_raw(thread), &set).expect("the thread is there");
}

/// Runs a program `repeat` times on one packet and tells the kernel's mean in nanoseconds and
/// what the last run returned.
pub fn test_run(program: BorrowedFd<'_>, packet: &[u8], repeat: i32) -> (u32, u32) {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: packet.as_ptr().cast(),
        data_size_in: packet.len() as u32,
        repeat,
        ..Default::default()
    };
    // SAFETY: the program is open and the packet as long as its size says.
    let answer = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    assert_eq!(answer, 0, "BPF_PROG_TEST_RUN");
    (options.duration, options.retval)
}

/// Runs an XDP program on `frames` packets whose redirects and transmissions are carried out.
pub fn live_frames(program: BorrowedFd<'_>, packet: &[u8], frames: i32) {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: packet.as_ptr().cast(),
        data_size_in: packet.len() as u32,
        repeat: frames,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: 64,
        ..Default::default()
    };
    // SAFETY: the program is open and the packet as long as its size says.
    let answer = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    // EINTR and EAGAIN end a run early; the generator goes on with the next.
    let early = [nix::libc::EINTR, nix::libc::EAGAIN].contains(&-answer);
    assert!(answer == 0 || early, "BPF_PROG_TEST_RUN: {answer}");
}

/// The measurements' own programs.
pub struct Own(Object);

impl Own {
    /// Loads them.
    pub fn load() -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o"));
        let open = ObjectBuilder::default().open_memory(bytes).expect("our own object");
        Own(open.load().expect("the verifier takes our own programs"))
    }

    /// One of them.
    pub fn program(&self, name: &str) -> BorrowedFd<'_> {
        let program = self.0.progs().find(|p| p.name() == name).expect("a program of ours");
        // SAFETY: the descriptor stays open as long as its object, which self owns.
        unsafe { BorrowedFd::borrow_raw(program.as_fd().as_raw_fd()) }
    }

    fn write(&self, map: &str, value: &[u8]) {
        let map = self.0.maps().find(|m| m.name() == map).expect("a map of ours");
        map.update(&0u32.to_ne_bytes(), value, MapFlags::ANY).expect("the map has an element 0");
    }

    /// The packet that is put back before each run; `interface` is where the generator sends.
    pub fn ask(&self, question: &[u8], interface: u32) {
        let mut value = [0; 88];
        value[..question.len()].copy_from_slice(question);
        value[80..84].copy_from_slice(&interface.to_ne_bytes());
        self.write("question", &value);
    }

    /// What runs behind the program that puts the question back.
    pub fn then(&self, map: &str, program: BorrowedFd<'_>) {
        self.write(map, &program.as_raw_fd().to_ne_bytes());
    }
}

/// A SYN as Linux sends it, 74 bytes, from port and address 0 of the network 10.10.0.0/16: the
/// generator fills these in.
pub fn syn(link_to: [u8; 6], to: std::net::SocketAddrV4) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 0x77], link_to)
        .ipv4([10, 10, 0, 0], to.ip().octets(), 64)
        .tcp(0, to.port(), 0x1234_5678, 64240)
        .syn()
        .options(&[
            TcpOptionElement::MaximumSegmentSize(1460),
            TcpOptionElement::SelectiveAcknowledgementPermitted,
            TcpOptionElement::Timestamp(0x0102_0304, 0),
            TcpOptionElement::Noop,
            TcpOptionElement::WindowScale(7),
        ])
        .expect("20 bytes of options fit");
    let mut frame = Vec::new();
    builder.write_to_vec(&mut frame, &[]).expect("a short packet");
    frame
}

/// An ACK without data, on the connection from `from` to `to`.
pub fn ack(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        unreachable!("the measurements are over IPv4");
    };
    let builder = PacketBuilder::ethernet2([0; 6], [0; 6])
        .ipv4(from.ip().octets(), to.ip().octets(), 64)
        .tcp(from.port(), to.port(), 1, 502)
        .ack(1)
        .options(&[
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(1, 1),
        ])
        .expect("12 bytes of options fit");
    let mut frame = Vec::new();
    builder.write_to_vec(&mut frame, &[]).expect("a short packet");
    frame
}

/// The client's FIN on the connection from `from` to `to`, 74 bytes as its SYN; the numbers are what
/// the server expects next, and what it sends next.
pub fn fin(from: SocketAddr, to: SocketAddr, (seq, ack): (u32, u32)) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        unreachable!("the measurements are over IPv4");
    };
    let mut options = [1; 20];
    options[10..12].copy_from_slice(&[8, 10]);
    let builder = PacketBuilder::ethernet2([0; 6], [0; 6])
        .ipv4(from.ip().octets(), to.ip().octets(), 64)
        .tcp(from.port(), to.port(), seq, 502)
        .ack(ack)
        .fin()
        .options_raw(&options)
        .expect("20 bytes of options fit");
    let mut frame = Vec::new();
    builder.write_to_vec(&mut frame, &[]).expect("a short packet");
    frame
}

/// What the server's end of a connection expects next, and what it sends next: a socket under repair
/// (linux/tcp.h) tells.
pub fn sequence_numbers(server: &TcpStream) -> (u32, u32) {
    const REPAIR_OFF: i32 = -1;
    const RECEIVE_QUEUE: i32 = 1;
    const SEND_QUEUE: i32 = 2;
    let fd = server.as_raw_fd();
    let set = |option: i32, value: i32| {
        // SAFETY: an open socket, and an integer of the length that is told.
        let done = unsafe {
            libc::setsockopt(fd, libc::IPPROTO_TCP, option, (&raw const value).cast(), 4)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    let ends_at = |queue: i32| {
        set(libc::TCP_REPAIR_QUEUE, queue);
        let (mut number, mut bytes) = (0_u32, 4);
        let to = (&raw mut number).cast();
        // SAFETY: an open socket, and an integer of the length that is told.
        let done = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, to, &raw mut bytes)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        number
    };
    set(libc::TCP_REPAIR, 1);
    let numbers = (ends_at(RECEIVE_QUEUE), ends_at(SEND_QUEUE));
    set(libc::TCP_REPAIR, REPAIR_OFF);
    numbers
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
    control::write_clock(programs, true).expect("the clock is written");
}

/// Programs that shed on the port, as a listener of this host or on the path to `address`.
pub fn shedder(shed: tg_shed_rules, path: Option<IpAddr>) -> Programs {
    let programs = Programs::load_sized(
        Objects::Guard,
        Default::default(),
        Sizes { shed_blocks: shed.blocks, held_blocks: 0 },
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
