// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host with listening sockets, some of them full, and programs that guard them.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, SockaddrStorage, bind, listen,
    setsockopt, shutdown, socket, sockopt,
};
use tidegate_datapath::configuration::{self, Configuration, Guarded};
use tidegate_datapath::control::{self, LetsIn};
use tidegate_datapath::counters;
use tidegate_datapath::link::{self, Place};
use tidegate_datapath::programs::{Program, Programs, Sizes};
use tidegate_datapath::raw::TG_HOOK_AUTO;
use tidegate_lab::{Link, Namespace, allowed_cpus};
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::raw::*;

use super::Runner;
use super::segment::{Offer, Segment, options};
use super::wire::{Wire, hardware_address};

pub const V4: &str = "10.9.0.1";
pub const V6: &str = "fd09::1";
pub const FULL: u16 = 8080;
pub const ROOMY: u16 = 8081;

/// Outcomes that every hook has its own number for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Pass,
    Drop,
    /// The packet goes back where it came from.
    Answer,
}

/// A program that decides at the SYN stage and can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    pub program: &'static str,
    pass: u32,
    drop: u32,
    answer: u32,
}

pub const DRIVER: Hook = Hook { program: "tidegate_driver", pass: 2, drop: 1, answer: 3 };
pub const DRIVER_VETH: Hook = Hook { program: "tidegate_driver_veth", pass: 2, drop: 1, answer: 4 };
pub const IP: Hook = Hook { program: "tidegate_ip", pass: u32::MAX, drop: 2, answer: 7 };
pub const AFTER_DRIVER: Hook = Hook { program: "tidegate_ip_after_driver", ..IP };
/// At a driver where every guard is a path.
pub const PATH: Hook = Hook { program: "tidegate_path", ..DRIVER };
pub const PATH_VETH: Hook = Hook { program: "tidegate_path_veth", ..DRIVER_VETH };
/// Those that decide a guard whose home is `auto`.
pub const HOOKS: [Hook; 3] = [DRIVER, DRIVER_VETH, IP];
/// And a path.
pub const PATH_HOOKS: [Hook; 5] = [DRIVER, DRIVER_VETH, PATH, PATH_VETH, IP];

impl Hook {
    pub fn outcome(&self, returned: u32) -> Outcome {
        match returned {
            r if r == self.pass => Outcome::Pass,
            r if r == self.drop => Outcome::Drop,
            r if r == self.answer => Outcome::Answer,
            other => panic!("{} returned {other}", self.program),
        }
    }
}

/// Runs a test on a thread of a namespace of its own, whose loopback has a host's addresses.
pub fn in_a_namespace(test: &'static str, body: impl FnOnce(&Namespace) + Send + 'static) {
    if tidegate_lab::skip_without_root(test) {
        return;
    }
    let namespace = Namespace::new("datapath").unwrap();
    namespace.ip(&format!("address add {V4}/32 dev lo")).unwrap();
    namespace.ip(&format!("address add {V6}/128 dev lo nodad")).unwrap();
    namespace.ip("link set lo mtu 1500").unwrap();
    let inside = namespace.clone();
    namespace.run(move || body(&inside));
}

/// The first and the last processor of those that this thread may use: they may be the same.
pub fn processors() -> (usize, usize) {
    let cpus = allowed_cpus().unwrap();
    (cpus[0], cpus[cpus.len() - 1])
}

/// A listening socket and the connections that fill its queue.
pub struct Server {
    pub listener: TcpListener,
    pub waiting: Vec<TcpStream>,
}

impl Server {
    /// A socket whose queue takes `backlog` + 1 connections, `waiting` of which it holds.
    pub fn new(address: SocketAddr, backlog: i32, waiting: usize) -> Self {
        Self::bound(address, backlog, false).holding(waiting)
    }

    /// No room at all: a backlog of none, and one connection that waits.
    pub fn full(address: SocketAddr) -> Self {
        Self::new(address, 0, 1)
    }

    /// An empty queue; `shared` sets SO_REUSEPORT.
    pub fn bound(address: SocketAddr, backlog: i32, shared: bool) -> Self {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&fd, sockopt::ReusePort, &shared).unwrap();
        Self::listening(fd, address, backlog)
    }

    fn listening(fd: OwnedFd, address: SocketAddr, backlog: i32) -> Self {
        // What is left of a connection of the server before must not keep the next one out.
        setsockopt(&fd, sockopt::ReuseAddr, &true).unwrap();
        // A program that is being started may hold one yet: see `Drop`.
        eventually("the port is free", || {
            match bind(fd.as_raw_fd(), &SockaddrStorage::from(address)) {
                Err(Errno::EADDRINUSE) => false,
                bound => bound.map(|()| true).unwrap(),
            }
        });
        listen(&fd, Backlog::new(backlog).unwrap()).unwrap();
        Server { listener: fd.into(), waiting: Vec::new() }
    }

    /// An empty queue of another protocol than TCP that comes as TCP.
    pub fn of_protocol(address: SocketAddr, backlog: i32, protocol: i32) -> Self {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: the kernel returns a descriptor that is nobody's yet, or -1.
        let fd = unsafe {
            let fd = libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, protocol);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        Self::listening(fd, address, backlog)
    }

    /// Another backlog, of the queue as it stands.
    pub fn set_backlog(&self, backlog: i32) {
        listen(&self.listener, Backlog::new(backlog).unwrap()).unwrap();
    }

    fn holding(mut self, waiting: usize) -> Self {
        let to = self.listener.local_addr().unwrap();
        self.waiting = (0..waiting).map(|_| connect(to)).collect();
        self
    }
}

impl Drop for Server {
    /// A program that the test beside this one starts holds this process's sockets until it
    /// is executed; what no longer listens does not answer, nor keep the next one out.
    fn drop(&mut self) {
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
    }
}

/// Connects to a socket of this host. In a namespace this young the kernel may still be
/// laying the routes to its own addresses.
pub fn connect(to: SocketAddr) -> TcpStream {
    let mut stream = None;
    eventually("a route to the own address", || match TcpStream::connect(to) {
        Ok(connected) => {
            stream = Some(connected);
            true
        }
        Err(error) if error.kind() == ErrorKind::NetworkUnreachable => false,
        Err(error) => panic!("connect to {to}: {error}"),
    });
    stream.expect("it connected")
}

/// The address of a client whose connection the server has closed first: it comes to TIME-WAIT there.
pub fn in_time_wait(server: &Server) -> SocketAddr {
    let client = connect(server.listener.local_addr().unwrap());
    let from = client.local_addr().unwrap();
    while server.listener.accept().unwrap().1 != from {}
    from
}

pub fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// A client that owns nothing on this host, in the family of `to`.
pub fn client(to: SocketAddr) -> SocketAddr {
    at(if to.is_ipv4() { "10.9.0.77" } else { "fd09::77" }, 40_000)
}

/// A connection from `from` that is begun, and that nobody answers.
pub fn connecting(from: SocketAddr, to: SocketAddr) -> TcpStream {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(family, SockType::Stream, flags, None).unwrap();
    bind(fd.as_raw_fd(), &SockaddrStorage::from(from)).unwrap();
    let begun = nix::sys::socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(to));
    assert_eq!(begun, Err(Errno::EINPROGRESS), "from {from} to {to}");
    fd.into()
}

/// Clients beyond a cable, whose end of it answers nothing: what the server sends them stays
/// unconfirmed.
pub struct Outside {
    clients: Namespace,
    link_to: [u8; 6],
    _link: Link,
}

impl Outside {
    pub fn of(namespace: &Namespace) -> Self {
        let clients = Namespace::new("clients").unwrap();
        let link = Link::between(namespace, "srv0", &clients, "cli0").unwrap();
        link.up().unwrap();
        for (network, client) in [("10.9.1.0/24", "10.9.1.7"), ("fd09:1::/64", "fd09:1::7")] {
            link.a().add_route(network, None).unwrap();
            let neighbor = format!("neighbor add {client} lladdr 02:00:00:00:00:07 dev srv0");
            namespace.ip(&neighbor).unwrap();
        }
        let link_to = hardware_address(namespace, "srv0");
        Outside { clients, link_to, _link: link }
    }

    /// With longer frames on the cable.
    pub fn with_mtu(self, namespace: &Namespace, bytes: u32) -> Self {
        namespace.ip(&format!("link set srv0 mtu {bytes}")).unwrap();
        self.clients.ip(&format!("link set cli0 mtu {bytes}")).unwrap();
        self
    }

    /// The one of them that speaks the family of `to`.
    pub fn client(to: SocketAddr, port: u16) -> SocketAddr {
        at(if to.is_ipv4() { "10.9.1.7" } else { "fd09:1::7" }, port)
    }

    pub fn sends(&self, segment: &Segment) {
        let frame = segment.clone().with(|s| s.link_to = self.link_to).bytes();
        assert!(self.clients.run(move || Wire::open("cli0").send(&frame)));
    }
}

pub fn guarded(address: Option<&str>, port: u16, rules: tg_rules) -> Guarded {
    let address = address.map(|a| a.parse().unwrap());
    Guarded { address, port, rules, hook: TG_HOOK_AUTO, ..Default::default() }
}

/// A listener whose SYNs are shed.
pub fn shedding(port: u16, shed: tg_shed_rules) -> Guarded {
    Guarded { shed, ..guarded(None, port, tg_rules::default()) }
}

pub fn refusing(syn: u32) -> tg_rules {
    tg_rules { syn, ..Default::default() }
}

/// The keys of every test's cookies.
pub const KEYS: tg_cookie_keys =
    tg_cookie_keys { current: tg_key { k0: 1, k1: 2 }, previous: tg_key { k0: 3, k1: 4 } };

/// The key of every test's persistent dropping.
pub const SHED_KEY: tg_key = tg_key { k0: 5, k1: 6 };

fn of_every_test(guards: Vec<Guarded>) -> Configuration {
    Configuration { guards, keys: KEYS, shed_key: SHED_KEY, ..Default::default() }
}

/// A guard's maps with a configuration in force.
pub struct Guards {
    pub programs: Programs,
    /// What decides: a test loads what it runs, since a kernel takes its time to verify each.
    deciding: [OnceLock<Programs>; Program::ALL.len()],
}

impl Guards {
    pub fn new(guards: Vec<Guarded>) -> Self {
        let guards = Guards::with(&of_every_test(guards), 0);
        control::write_clock(&guards.programs, LetsIn::All).unwrap();
        guards
    }

    /// These in place of those before, whose programs stay loaded.
    pub fn rewrite(&self, guards: Vec<Guarded>) {
        configuration::write(&self.programs, &of_every_test(guards)).unwrap();
    }

    /// One of this configuration, with so many blocks for what is held.
    pub fn with(configuration: &Configuration, held_blocks: u32) -> Self {
        let shed_blocks = configuration.shed_blocks();
        let sizes = Sizes { shed_blocks, held_blocks, ..Default::default() };
        let programs = Programs::load_maps(Default::default(), sizes).unwrap();
        configuration::write(&programs, configuration).unwrap();
        Guards { programs, deciding: Default::default() }
    }

    pub fn program(&self, name: &str) -> BorrowedFd<'_> {
        let at = Program::ALL.iter().position(|program| program.name() == name);
        let at = at.unwrap_or_else(|| panic!("{name} is none of those that decide"));
        let loaded = self.deciding[at].get_or_init(|| {
            let maps = self.programs.maps().iter();
            let shared = maps.map(|(name, map)| (name.clone(), MapHandle::try_from(map).unwrap()));
            let mut one = Programs::of_maps(shared.collect());
            one.load_one(Program::ALL[at], Sizes::default()).unwrap();
            one
        });
        loaded.program(name).unwrap()
    }

    /// With these loaded: where a moment counts that loading would outlast.
    pub fn ready(self, programs: &[&str]) -> Self {
        for program in programs {
            self.program(program);
        }
        self
    }

    /// A program attached where the cable to those outside ends.
    pub fn at_the_cable(&self, name: &str) -> OwnedFd {
        let index = nix::net::if_::if_nametoindex("srv0").unwrap();
        link::create(self.program(name), name, Place::Ingress(index)).unwrap()
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (to, guard) in counts.0.iter_mut().zip(0..) {
            *to = counters::read(&self.programs, guard).unwrap();
        }
        counts
    }
}

/// Packets that one guard has judged alike: guard, reason, verdict, packets.
pub type Counted = (usize, &'static str, &'static str, u64);

/// What the first few guards have counted.
#[derive(Debug, Clone, Default)]
pub struct Counts([tg_counters; 8]);

impl Counts {
    /// Everything that was counted since `before`.
    pub fn since(&self, before: &Counts) -> Vec<Counted> {
        let mut changes = Vec::new();
        for (guard, (now, was)) in self.0.iter().zip(&before.0).enumerate() {
            for (reason, (now, was)) in now.packets.iter().zip(&was.packets).enumerate() {
                for (verdict, (now, was)) in now.iter().zip(was).enumerate() {
                    if now != was {
                        changes.push((guard, REASONS[reason], VERDICTS[verdict], now - was));
                    }
                }
            }
        }
        changes
    }
}

/// Until a listener that was looked up before is looked up anew: `TG_REMEMBER_NS`, and a tick
/// of the coarse clock.
pub fn forget() {
    sleep(Duration::from_millis(20));
}

/// Waits for something that the kernel does soon.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(2));
    }
}

pub fn both_families() -> [SocketAddr; 2] {
    [at(V4, FULL), at(V6, FULL)]
}

pub fn both_full() -> [Server; 2] {
    both_families().map(Server::full)
}

/// A SYN as Linux sends it.
pub fn syn(to: SocketAddr) -> Segment {
    Segment::syn(client(to), to).with(|s| {
        s.options = options(&[
            Offer::Mss(if to.is_ipv4() { 1460 } else { 1440 }),
            Offer::Sack,
            Offer::Stamps(0x0102_0304),
            Offer::Nop,
            Offer::Scale(7),
        ]);
    })
}

/// Runs one frame and tells what was decided, what left, and what was counted.
pub fn one(guards: &Guards, hook: Hook, frame: &[u8]) -> (Outcome, Vec<u8>, Vec<Counted>) {
    let before = guards.counts();
    let mut runner = Runner::new();
    let ran = runner.run(guards.program(hook.program), frame, &[]).unwrap();
    (hook.outcome(ran.returned), ran.packet.to_vec(), guards.counts().since(&before))
}

/// It passes as it came, and no guard has judged it.
#[track_caller]
pub fn assert_not_judged(guards: &Guards, frame: &[u8], why: &str) {
    for hook in HOOKS {
        let (outcome, left, counted) = one(guards, hook, frame);
        assert_eq!(outcome, Outcome::Pass, "{why}, {hook:?}");
        assert_eq!(left, frame, "{why}, {hook:?}");
        assert_eq!(counted, [], "{why}, {hook:?}");
    }
}

/// It passes as it came, for this reason.
#[track_caller]
pub fn assert_passed(guards: &Guards, frame: &[u8], reason: &'static str) {
    for hook in HOOKS {
        let (outcome, left, counted) = one(guards, hook, frame);
        assert_eq!(counted, [(0, reason, "pass", 1)], "{hook:?}");
        assert_eq!(outcome, Outcome::Pass, "{reason}, {hook:?}");
        assert_eq!(left, frame, "{reason}, {hook:?}");
    }
}

pub fn set<T>(listener: &impl AsRawFd, option: i32, value: &T) {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads that many bytes of a value that lives until it returns.
    let done = unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(listener.as_raw_fd(), libc::SOL_SOCKET, option, value, length)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// As if no listener had been in trouble for long.
pub fn calm(guards: &Guards) {
    let map = guards.programs.map("watch_until_ns");
    let nothing = [0; size_of::<u64>()];
    map.update(&0u32.to_ne_bytes(), &nothing, MapFlags::ANY).unwrap();
}

/// The connection that comes in next.
pub fn accept(server: &Server) -> (TcpStream, SocketAddr) {
    let mut accepted = None;
    eventually("a connection comes in", || {
        accepted = server.listener.accept().ok();
        accepted.is_some()
    });
    accepted.expect("it came in")
}
