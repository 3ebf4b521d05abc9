// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs a second that one receiving processor disposes of.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use tidegate_datapath::counters;
use tidegate_datapath::link::{self, Place};
use tidegate_datapath::programs::Programs;
use tidegate_lab::{Counters, Link, Namespace, allowed_cpus};
use tidegate_policy::raw::{
    TG_KEY_CONNECTION, TG_REFUSE_COOKIE, TG_REFUSE_SILENTLY, TG_SLPD, TG_SYN_COOKIE, TG_SYN_DROP,
    TG_SYN_RESET, TG_VERDICTS, tg_shed_rules,
};

use crate::guard::{self, PORT};
use crate::host;
use crate::numbers::{Rounds, shown, verdict};
use crate::segment;
use crate::test_run::{self, Own};

const ROUNDS: usize = 5;
const WARM: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(2000);
const SERVER: &str = "10.9.0.1";
const NEAR: &str = "bsrv0";
const FAR: &str = "bcli0";

const HOW: &str = "\
SYNs a second that one receiving processor disposes of, over veth
  The receiving end is polled by a thread (threaded NAPI) bound to one processor, which does all
  of the work there, answers included. The other processor makes SYNs (BPF_PROG_TEST_RUN with live
  frames, redirected into the cable, a source address and port for each) and drops the answers in
  XDP. What is counted is what the receiver says it did: our counters, ListenDrops,
  SyncookiesSent, nft's counter. A second is one in which the polling thread ran (schedstat): the
  last column says which share of the time that was; below 1.00 the sender, or whoever else uses
  the machine, did not keep it busy. refusal_cost_ns is 0. Rounds alternate between the rows.
";

/// What disposes of the SYNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One of our programs, with this refusal.
    Driver(u32),
    /// The same as on a network card: XDP_TX, which veth takes only because the far end has an
    /// XDP program.
    DriverTransmit(u32),
    Ip(u32),
    /// Persistent dropping of everyone by the hash, in this form.
    Shed(u32),
    KernelDrop,
    KernelCookies,
    NftInet,
    NftIngress,
}

const WAYS: [(Way, &str); 12] = [
    (Way::Driver(TG_SYN_RESET), "tidegate, driver: RST"),
    (Way::DriverTransmit(TG_SYN_RESET), "tidegate, driver: RST by XDP_TX"),
    (Way::Driver(TG_SYN_COOKIE), "tidegate, driver: cookie SYN/ACK"),
    (Way::Driver(TG_SYN_DROP), "tidegate, driver: early drop"),
    (Way::Ip(TG_SYN_RESET), "tidegate, IP entry: RST"),
    (Way::Ip(TG_SYN_COOKIE), "tidegate, IP entry: cookie SYN/ACK"),
    (Way::Shed(TG_REFUSE_SILENTLY), "tidegate, driver: slpd"),
    (Way::Shed(TG_REFUSE_COOKIE), "tidegate, driver: slpd, SYN/ACK to nothing"),
    (Way::KernelDrop, "kernel: silent drop, queue full"),
    (Way::KernelCookies, "kernel: SYN cookies"),
    (Way::NftInet, "nft inet: reject with tcp reset"),
    (Way::NftIngress, "nft netdev ingress: reject with tcp reset"),
];

struct Bench {
    server: Namespace,
    cable: Link,
    generating: Arc<AtomicBool>,
    /// The kernel's thread that polls the receiving end.
    receives: i32,
}

impl Bench {
    fn new(receiver: usize, sender: usize) -> Self {
        let server = Namespace::new("bench-server").expect("a namespace");
        let clients = Namespace::new("bench-clients").expect("a namespace");
        let cable = Link::between(&server, NEAR, &clients, FAR).expect("a cable");
        cable.a().add_address(&format!("{SERVER}/24")).expect("an address");
        cable.b().add_address("10.9.0.2/24").expect("an address");
        cable.receive_offload().expect("ethtool: install the package ethtool");
        cable.up().expect("both ends");
        let receives = cable.a().poll_on(receiver).expect("threaded NAPI (Linux 5.12)");
        cable.b().poll_on(sender).expect("threaded NAPI (Linux 5.12)");
        let far = hardware_address(&clients, FAR);
        let neighbor = format!("neighbor replace 10.9.0.2 lladdr {far} dev {NEAR} nud permanent");
        server.ip(&neighbor).expect("a neighbour");
        cable.a().add_route("10.10.0.0/16", Some("10.9.0.2")).expect("a route");

        let generating = Arc::new(AtomicBool::new(true));
        let on = generating.clone();
        let to = format!("{SERVER}:{PORT}").parse().expect("an address");
        let near = hardware_address(&server, NEAR);
        let syn = segment::syn(octets(&near), to);
        clients
            .thread(move || {
                host::pin(0, sender);
                let own = Own::load();
                let index = if_nametoindex(FAR).expect("the far end");
                own.ask(&syn, index);
                // Longer than the SYN, so that each frame is cut to its length anew: a page comes
                // back with the length of the answer that was last written into it.
                let room = vec![0; syn.len() + 20];
                let _sink = link::create(own.program("sink"), "sink", Place::Driver(index))
                    .expect("veth takes XDP programs");
                while on.load(Ordering::Relaxed) {
                    // Many at a time: each run begins and ends with tens of milliseconds of waiting
                    // for RCU, while the kernel exchanges the XDP dispatcher's program.
                    test_run::live_frames(own.program("generate"), &room, 1 << 23);
                }
            })
            .expect("a thread");
        Bench { server, cable, generating, receives }
    }

    /// What `way` disposes of.
    fn rate(&self, way: Way) -> Rate {
        let (server, receives) = (self.server.clone(), self.receives);
        self.server.run(move || rate_here(&server, receives, way))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.generating.store(false, Ordering::Relaxed);
        let _ = self.cable.a().down();
    }
}

fn octets(address: &str) -> [u8; 6] {
    let mut octets = [0; 6];
    for (octet, digits) in octets.iter_mut().zip(address.split(':')) {
        *octet = u8::from_str_radix(digits, 16).expect("hexadecimal");
    }
    octets
}

fn hardware_address(namespace: &Namespace, end: &str) -> String {
    let file = format!("/sys/class/net/{end}/address");
    namespace.read_file(file).expect("it has one").trim().to_owned()
}

/// What has been disposed of so far.
type Count<'a> = Box<dyn Fn() -> u64 + 'a>;

/// SYNs over some time.
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// In a second.
    a_second: f64,
    /// The share of it that the receiving thread was running.
    busy: f64,
}

/// Seconds that a thread has run.
fn ran_s(thread: i32) -> f64 {
    let told = fs::read_to_string(format!("/proc/{thread}/schedstat")).expect("it lives");
    let ns: f64 = told.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    ns / 1e9
}

fn measure_count(receives: i32, count: Count<'_>) -> Rate {
    sleep(WARM);
    let (before, ran, begun) = (count(), ran_s(receives), Instant::now());
    sleep(MEASURED);
    let (after, ran, took) = (count(), ran_s(receives) - ran, begun.elapsed().as_secs_f64());
    Rate { a_second: (after - before) as f64 / took, busy: ran / took }
}

fn rate_here(server: &Namespace, receives: i32, way: Way) -> Rate {
    let address: SocketAddr = format!("{SERVER}:{PORT}").parse().expect("an address");
    let index = if_nametoindex(NEAR).expect("the near end");
    let full = way != Way::KernelCookies;
    let backlog = if full { 0 } else { 4096 };
    // Only the kernel's cookies are asked for with room; a first SYN takes the only place.
    server.sysctl("net.ipv4.tcp_syncookies", if full { 1 } else { 2 }).expect("a sysctl");
    let listener = guard::listener(address, backlog);
    // From the host itself, over loopback: the queue holds one connection, and is full.
    let _waits = full.then(|| std::net::TcpStream::connect(address).expect("room for one"));
    let kernels = |name: &'static str| -> Count<'_> {
        Box::new(move || {
            let counters = Counters::of(server).expect("the kernel's counters");
            counters.get(name).expect("it has this one") as u64
        })
    };
    let rate = match way {
        Way::Driver(_) | Way::DriverTransmit(_) | Way::Ip(_) | Way::Shed(_) => {
            by_guard(receives, index, way)
        }
        Way::KernelDrop => measure_count(receives, kernels("TcpExtListenDrops")),
        Way::KernelCookies => measure_count(receives, kernels("TcpExtSyncookiesSent")),
        Way::NftInet | Way::NftIngress => {
            let table = if way == Way::NftInet { "inet bench" } else { "netdev bench" };
            reject_by_nft(server, table, way);
            let rate = measure_count(receives, Box::new(|| nft_counter(server, table)));
            server.output(server.command(&format!("nft delete table {table}"))).expect("nft");
            rate
        }
    };
    drop(listener);
    rate
}

/// What one of our programs disposes of, at its hook.
fn by_guard(receives: i32, index: u32, way: Way) -> Rate {
    let guard = match way {
        Way::Driver(syn) | Way::DriverTransmit(syn) | Way::Ip(syn) => guard::guard(syn),
        Way::Shed(refusal) => shedding(refusal),
        _ => unreachable!("matched above"),
    };
    let (name, place) = match way {
        Way::Driver(_) | Way::Shed(_) => ("tidegate_driver_veth", Place::Driver(index)),
        Way::DriverTransmit(_) => ("tidegate_driver", Place::Driver(index)),
        _ => ("tidegate_ip", Place::Ingress(index)),
    };
    let program = guard.program(name).expect("a program");
    let _link = link::create(program.as_fd(), name, place).expect("it attaches");
    measure_count(
        receives,
        Box::new(|| {
            let counted = counters::read(&guard, 0).expect("the first guard's counters");
            let by_verdict = |v: u32| counted.packets.iter().map(move |row| row[v as usize]);
            (1..TG_VERDICTS).flat_map(by_verdict).sum()
        }),
    )
}

/// A rule that rejects with RST, in a table of its own.
fn reject_by_nft(server: &Namespace, table: &str, way: Way) {
    server.output(server.command(&format!("nft add table {table}"))).expect("nft");
    let chain = match way {
        Way::NftIngress => format!("type filter hook ingress device {NEAR} priority 0 ;"),
        _ => "type filter hook input priority 0 ;".to_owned(),
    };
    let mut command = server.command(&format!("nft add chain {table} refuse"));
    command.arg(format!("{{ {chain} }}"));
    server.output(command).expect("nft");
    let rule =
        format!("nft add rule {table} refuse tcp dport {PORT} counter reject with tcp reset");
    server.output(server.command(&rule)).expect("nft");
}

/// All are shed, whoever they are.
fn shedding(refusal: u32) -> Programs {
    let all = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
    guard::shedder(tg_shed_rules { refusal, ..all }, None)
}

fn nft_counter(server: &Namespace, table: &str) -> u64 {
    let listed = server.output(server.command(&format!("nft list table {table}"))).expect("nft");
    let words: Vec<&str> = listed.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "packets").expect("a counter");
    words[at + 1].parse().expect("a number")
}

/// Measures and prints; whether every target was met.
pub fn measure() -> bool {
    let cpus = allowed_cpus().expect("the kernel says");
    let [receiver, sender, ..] = cpus[..] else {
        println!("The throughput needs two processors: one to send, one to receive.");
        return false;
    };
    let bench = Bench::new(receiver, sender);
    let mut rounds: Vec<Rounds> = vec![Rounds::default(); WAYS.len()];
    let mut busy = rounds.clone();
    for _ in 0..ROUNDS {
        for ((rounds, busy), (way, _)) in rounds.iter_mut().zip(&mut busy).zip(WAYS) {
            let rate = bench.rate(way);
            rounds.0.push(rate.a_second / rate.busy / 1e6);
            busy.0.push(rate.busy);
        }
    }
    println!("{HOW}");
    println!("{:<44} {:>7} {:>12} {:>6}", "million SYNs a second", "median", "min-max", "busy");
    for (((_, name), rounds), busy) in WAYS.iter().zip(&rounds).zip(&busy) {
        let (least, most) = rounds.range();
        let (median, range) = (rounds.median(), format!("{least:.2}-{most:.2}"));
        println!("{name:<44} {median:>7.2} {range:>12} {:>6.2}", busy.median());
    }
    println!();
    ratios(&rounds)
}

fn ratios(rounds: &[Rounds]) -> bool {
    let of = |way: Way| {
        let place = WAYS.iter().position(|(other, _)| *other == way).expect("every way is there");
        rounds[place].median()
    };
    let by_redirect = of(Way::Driver(TG_SYN_RESET));
    // What a network card runs, and a veth whose peer has an XDP program too.
    let by_transmit = of(Way::DriverTransmit(TG_SYN_RESET));
    let cookie = of(Way::Driver(TG_SYN_COOKIE));
    let best_nft = of(Way::NftInet).max(of(Way::NftIngress));
    let silent = of(Way::KernelDrop);
    let shed = of(Way::Shed(TG_REFUSE_SILENTLY));
    let mut met = true;
    println!("{:<60} {:>6} {:>7}", "ratio of medians", "", "target");
    for (what, ratio, target) in [
        ("slpd / the kernel's silent drop", shed / silent, 3.0),
        ("RST by XDP_TX / the kernel's silent drop", by_transmit / silent, 3.0),
        ("RST by redirect / the kernel's silent drop", by_redirect / silent, 3.0),
        ("RST by XDP_TX / the best nft rule", by_transmit / best_nft, 6.0),
        ("RST by redirect / the best nft rule", by_redirect / best_nft, 6.0),
        ("cookie by redirect / the kernel's SYN cookies", cookie / of(Way::KernelCookies), 5.0),
    ] {
        let meets = |ratio: f64| ratio >= target;
        met &= meets(ratio);
        let (ratio_shown, target_shown) = (shown(ratio, 1, meets), format!(">= {target}"));
        println!("{what:<60} {ratio_shown:>6} {target_shown:>7}  {}", verdict(meets(ratio)));
    }
    println!();
    met
}
