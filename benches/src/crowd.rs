// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How strong a crowd one processor makes, beside httperf on the same processor.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_crowd::{Class, Close, Driver, Load, Outcome, Plan, run};
use tidegate_lab::{Child, Link, Namespace, ProcessorTime, allowed_cpus, pin_command, pin_thread};

use crate::numbers::{Rounds, shown, verdict};

const ROUNDS: usize = 3;
const MEASURED: Duration = Duration::from_secs(3);
/// Well within the time in which a veth's 256 places fill up.
const POLL_EVERY_NS: u32 = 30_000;
const START_PATIENCE: Duration = Duration::from_secs(10);
const SERVER: &str = "10.9.0.1";
/// Nobody listens there: the kernel refuses.
const CLOSED: u16 = 81;
const SERVED: u16 = 80;
/// A driver's guard before a server that never accepts: it refuses without the kernel.
const GUARDED: u16 = 82;
/// What is sent there is dropped: no one has that address.
const NOBODY: &str = "10.9.0.9";
const REFUSED_PER_S: f64 = 400_000.0;
const EXCHANGES_PER_S: f64 = 100_000.0;
const TIMES_HTTPERF: f64 = 10.0;
/// Five seconds of the most that httperf was seen to do: 37,000 refused attempts a second.
const HTTPERF_MAX: u32 = 200_000;
const MILLION_MIB: u64 = 1024;

/// The crowds, and where each goes.
const WAYS: [(&str, Driver, u16, Close); 6] = [
    ("crowd, raw: refused by the kernel", Driver::Raw, CLOSED, Close::Fin),
    ("crowd, raw: refused by tidegate's driver", Driver::Raw, GUARDED, Close::Fin),
    ("crowd, sockets: refused by the kernel", Driver::Sockets, CLOSED, Close::Fin),
    ("crowd, raw: exchanges, closed with FIN", Driver::Raw, SERVED, Close::Fin),
    ("crowd, raw: exchanges, closed with RST", Driver::Raw, SERVED, Close::Reset),
    ("crowd, sockets: exchanges", Driver::Sockets, SERVED, Close::Fin),
];

const HOW: &str = "\
Attempts that a crowd on one processor makes in a second, the server on the other
  Closed loops of 200 clients, the best of which is the crowd's limit or the server's; httperf's
  rate is raised until its own figure stops growing. The crowd's is of the attempts that begin in its
  seconds; httperf divides by all of its time, up to a second of patience for the last of them included.
  It is refused for five seconds and more, so that this takes up to a sixth from its figure; served, for
  one, where it may take half. Rounds alternate between the rows. Where the server refuses, its end of
  the cable is polled every 30 µs on its own processor, by a thread of the kernel, as on a network card
  that moderates its interrupts: a veth left alone has the sender's processor do that work, one frame at
  a time. Where it replies, packets are steered to its processor (RPS), as in every live experiment.
";

/// How the server's processor comes by what arrives.
#[derive(Clone, Copy)]
enum Arrivals {
    Polled,
    Steered,
}

impl Arrivals {
    fn at(port: u16) -> Self {
        if port == SERVED { Self::Steered } else { Self::Polled }
    }
}

struct Bench {
    server: Namespace,
    clients: Namespace,
    cable: Link,
    server_cpu: usize,
    crowd_cpu: usize,
}

/// Measures and prints; whether every target is met.
pub fn measure() -> bool {
    print!("{HOW}");
    let refusing = Bench::new(Arrivals::Polled);
    let _stuck = refusing.guarded();
    let replying = Bench::new(Arrivals::Steered);
    let _serves = replying.serve(SERVED, "128");
    let found = run_rounds(&refusing, &replying);
    table(&found);
    targets(&found) & refusing.million() & refusing.schedule()
}

/// Of each crowd how much it did in a second, and how busy the server's processor was; and httperf's.
struct Found {
    rounds: Vec<Rounds>,
    busy: Vec<Rounds>,
    httperf: [Option<Rounds>; 3],
}

fn run_rounds(refusing: &Bench, replying: &Bench) -> Found {
    let mut rounds = vec![Rounds::default(); WAYS.len()];
    let mut httperf = [const { Vec::new() }; 3];
    let mut busy = vec![Rounds::default(); WAYS.len()];
    for _ in 0..ROUNDS {
        for (at, (_, driver, port, close)) in WAYS.into_iter().enumerate() {
            let bench = match Arrivals::at(port) {
                Arrivals::Polled => refusing,
                Arrivals::Steered => replying,
            };
            let before = spent(bench.server_cpu);
            let outcome = bench.send(closed_loop(driver, port, close));
            // Of all the time that it was busy in: the crowd makes ready, warms up and leaves, too.
            let shares = spent(bench.server_cpu).shares_since(&before);
            busy[at].0.push(1.0 - shares["idle"]);
            let done = outcome.replies + outcome.errors.turned_away();
            rounds[at].0.push(done as f64 / outcome.duration_s);
        }
        for (rounds, port) in httperf.iter_mut().zip([CLOSED, GUARDED, SERVED]) {
            rounds.push(httperf_per_s(port));
        }
    }
    // Of a report that cannot be read nobody knows whether it was the middle one.
    let httperf = httperf.map(|rounds| rounds.into_iter().collect::<Option<Vec<_>>>().map(Rounds));
    Found { rounds, busy, httperf }
}

fn table(found: &Found) {
    println!("  {:<44} {:>10} {:>21} {:>13}", "", "per second", "range", "server busy");
    for (at, (name, ..)) in WAYS.iter().enumerate() {
        show(name, &found.rounds[at], &format!("{:.0} %", 100.0 * found.busy[at].median()));
    }
    let names = ["refused by the kernel", "refused by tidegate's driver", "exchanges"];
    for (name, rounds) in names.into_iter().zip(&found.httperf) {
        let name = format!("httperf: {name}");
        match rounds {
            Some(rounds) => show(&name, rounds, ""),
            None => println!("  {name:<44} a report of its cannot be read"),
        }
    }
}

/// Whether each was met.
fn targets(found: &Found) -> bool {
    let Found { rounds, busy, httperf } = found;
    let refused = rounds[0].median().max(rounds[1].median());
    let exchanges = rounds[3].median().max(rounds[4].median());
    // Like with like. A kernel that refuses is itself the limit of this crowd, not of httperf.
    let times =
        |ours: f64, its: &Option<Rounds>| its.as_ref().and_then(|its| ratio(ours, its.median()));
    let times_refused = times(rounds[1].median(), &httperf[1]);
    let times_by_kernel = times(rounds[0].median(), &httperf[0]);
    let times_served = times(exchanges, &httperf[2]);
    // A server that is busy all the time is the limit, not the crowd.
    let server_is_full = busy[3].median().max(busy[4].median()) > 0.9;
    let mut met = true;
    let mut target = |text: String, holds: bool| {
        println!("  {text:<78} {}", verdict(holds));
        met &= holds;
    };
    let meets = |per_s: f64| per_s >= REFUSED_PER_S;
    target(
        format!("refused attempts: {}/s (target {REFUSED_PER_S:.0})", shown(refused, 0, meets)),
        meets(refused),
    );
    let meets = |per_s: f64| per_s >= EXCHANGES_PER_S;
    target(
        format!(
            "exchanges: {}/s (target {EXCHANGES_PER_S:.0}, or a server that can no more)",
            shown(exchanges, 0, meets)
        ),
        meets(exchanges) || server_is_full,
    );
    target(
        format!(
            "refused attempts to httperf's: {} (target {TIMES_HTTPERF})",
            times_told(times_refused)
        ),
        times_refused.is_some_and(are_enough),
    );
    println!("  refused by the kernel, to httperf's: {}", times_told(times_by_kernel));
    println!("  exchanges to httperf's: {}", times_told(times_served));
    met
}

/// How many times a peer's; a peer that did nothing was not measured.
fn ratio(ours: f64, its: f64) -> Option<f64> {
    (its > 0.0).then(|| ours / its)
}

fn are_enough(times: f64) -> bool {
    times >= TIMES_HTTPERF
}

fn times_told(times: Option<f64>) -> String {
    let told = |times| format!("{} times", shown(times, 1, are_enough));
    times.map_or("unknown, it has no rate".to_owned(), told)
}

fn show(name: &str, rounds: &Rounds, busy: &str) {
    let (least, most) = rounds.range();
    println!("  {name:<44} {:>10.0} {least:>10.0}–{most:<10.0} {busy:>13}", rounds.median());
}

fn closed_loop(driver: Driver, port: u16, close: Close) -> Plan {
    let raw = driver == Driver::Raw;
    let sources = if raw { "10.128.0.0/24" } else { "10.9.1.0/27" };
    Plan {
        driver,
        targets: vec![format!("{SERVER}:{port}").parse().expect("an address")],
        sources: vec![sources.parse().expect("a prefix")],
        load: Load::Closed { clients: 200 },
        warm_up: Duration::from_millis(500),
        duration: MEASURED,
        classes: vec![Class { timeout: Duration::from_secs(2), close, ..Class::default() }],
        ..Plan::default()
    }
}

impl Bench {
    fn new(arrivals: Arrivals) -> Self {
        let cpus = allowed_cpus().expect("processors");
        let (server_cpu, crowd_cpu) = (cpus[0], cpus[cpus.len() - 1]);
        let server = Namespace::new("bench-server").expect("a namespace");
        let clients = Namespace::new("bench-clients").expect("a namespace");
        let cable = Link::between(&server, "bsrv0", &clients, "bcli0").expect("a cable");
        cable.a().add_address(&format!("{SERVER}/16")).expect("an address");
        cable.b().add_address("10.9.0.2/16").expect("an address");
        for host in 1..31 {
            cable.b().add_address(&format!("10.9.1.{host}/16")).expect("an address");
        }
        cable.up().expect("both ends up");
        match arrivals {
            Arrivals::Polled => {
                cable.a().receive_offload().expect("ethtool: install the package ethtool");
                let polled = cable.a().poll_every(POLL_EVERY_NS, server_cpu);
                polled.expect("threaded NAPI (Linux 5.12)");
            }
            Arrivals::Steered => {
                cable.a().receive_on(server_cpu).expect("receive packet steering");
            }
        }
        cable.b().receive_on(crowd_cpu).expect("receive packet steering");
        cable.a().add_route("10.128.0.0/16", Some("10.9.0.2")).expect("a route");
        let near = server.read_file("/sys/class/net/bsrv0/address").expect("it has one");
        let nobody =
            format!("neighbor replace {NOBODY} lladdr {} dev bcli0 nud permanent", near.trim());
        clients.ip(&nobody).expect("a neighbour");
        clients.sysctl("net.ipv4.ip_local_port_range", "1024 65535").expect("ports");
        clients.sysctl("net.ipv4.tcp_tw_reuse", 1).expect("ports");
        Self { server, clients, cable, server_cpu, crowd_cpu }
    }

    fn serve(&self, port: u16, backlog: &str) -> Child {
        let port = format!("--port={port}");
        self.start("tidelab", &["serve", &port, "--backlog", backlog], "listening on ")
    }

    /// A full listen queue and a guard at the driver; both end with what is returned.
    fn guarded(&self) -> (Child, Child, Vec<std::net::TcpStream>) {
        let server = self.serve(GUARDED, "1");
        server.signal(nix::sys::signal::Signal::SIGSTOP).expect("a running server");
        let target = format!("{SERVER}:{GUARDED}").parse().expect("an address");
        let fill = move || {
            let patience = Duration::from_millis(200);
            std::iter::from_fn(|| std::net::TcpStream::connect_timeout(&target, patience).ok())
                .take(8)
                .collect()
        };
        let held: Vec<std::net::TcpStream> = self.clients.run(fill);
        let port = GUARDED.to_string();
        let words = ["run", "--port", &port, "--mechanism", "rst-syn", "--hook", "driver"];
        (self.start("tidegate", &words, "guarding "), server, held)
    }

    fn start(&self, program: &str, words: &[&str], ready: &str) -> Child {
        let path = beside(program);
        let mut command = Command::new(path);
        command.args(words);
        pin_command(&mut command, self.server_cpu).expect("a processor");
        let child = self.server.start(program, command, ready, START_PATIENCE);
        child.unwrap_or_else(|error| panic!("{error}"))
    }

    fn send(&self, plan: Plan) -> Outcome {
        let cpu = self.crowd_cpu;
        let crowd = self.clients.thread(move || {
            pin_thread(cpu).expect("a processor");
            run(&plan).expect("a crowd")
        });
        crowd.expect("a thread").join().expect("an outcome")
    }

    /// A silent server leaves every attempt under way until it gives up.
    fn million(&self) -> bool {
        let per_s = 115_000.0;
        let plan = Plan {
            targets: vec![format!("{NOBODY}:80").parse().expect("an address")],
            load: Load::Constant { per_s },
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(12),
            classes: vec![Class { timeout: Duration::from_secs(10), ..Class::default() }],
            ..closed_loop(Driver::Raw, 80, Close::Fin)
        };
        let outcome = self.send(plan);
        let mib = peak_mib();
        let holds = outcome.in_flight_max >= 1_000_000 && mib <= MILLION_MIB;
        let text = format!(
            "{} attempts under way in {mib} MiB (target 1,000,000 in {MILLION_MIB})",
            outcome.in_flight_max
        );
        println!("  {text:<78} {}", verdict(holds));
        holds
    }

    /// The middle of several rounds: a hypervisor that takes the processor for 30 ms once in 3 s
    /// makes a hundredth of the starts late, whoever makes them.
    fn schedule(&self) -> bool {
        let mut all = true;
        for per_s in [1_000.0, 10_000.0, 100_000.0] {
            let mut late_ms = Rounds::default();
            let (before, begun) = (spent(self.crowd_cpu), Instant::now());
            for _ in 0..ROUNDS {
                let load = Load::Poisson { per_s };
                let plan = Plan { load, ..closed_loop(Driver::Raw, CLOSED, Close::Fin) };
                late_ms.0.push(self.send(plan).late_starts.p99_ms);
            }
            let stolen = spent(self.crowd_cpu).shares_since(&before)["stolen"];
            let stolen_ms = stolen * begun.elapsed().as_secs_f64() * 1e3;
            let is_in_time = |late_ms: f64| late_ms <= 1.0;
            let holds = is_in_time(late_ms.median());
            let text = format!(
                "{per_s} starts/s are {} ms late at the 99th percentile (target 1)",
                shown(late_ms.median(), 2, is_in_time)
            );
            println!("  {text:<78} {}", verdict(holds));
            let (least, most) = late_ms.range();
            println!(
                "    rounds {least:.2} to {most:.2} ms; the hypervisor took {stolen_ms:.0} ms"
            );
            all &= holds;
        }
        all
    }
}

/// What httperf brings to an end in a second, served or refused, at the rate that suits it best.
/// Each rate has a ground of its own: tens of thousands of connections in TIME-WAIT would slow its
/// next bind(). None where a report of its cannot be read.
fn httperf_per_s(port: u16) -> Option<f64> {
    let mut best = 0.0_f64;
    for per_s in [10_000_u32, 20_000, 40_000, 80_000, 120_000, 160_000] {
        let bench = Bench::new(Arrivals::at(port));
        let _serves = bench.serve(SERVED, "128");
        let _stuck = (port == GUARDED).then(|| {
            // What a driver answers is lost where the other end does not poll; the crowd's does.
            bench.cable.b().receive_offload().expect("ethtool: install the package ethtool");
            bench.guarded()
        });
        let mut command = bench.clients.command(&httperf(port, per_s));
        pin_command(&mut command, bench.crowd_cpu).expect("a processor");
        let text = bench.clients.output(command).expect("httperf: install the package httperf");
        best = best.max(ended_per_s(&text, port)?);
    }
    Some(best)
}

/// How httperf is run. It divides by all of its time, and waits for up to a second for the last of what it
/// began: where that is no small part of what it would do of itself, it would be its patience that is
/// measured. Where it is served its connections stay in TIME-WAIT, and it has no ports for more than a
/// second's.
fn httperf(port: u16, per_s: u32) -> String {
    let connections = if port == SERVED { per_s } else { (5 * per_s).min(HTTPERF_MAX) };
    format!(
        "httperf --server {SERVER} --port {port} --uri / --rate {per_s} \
         --num-conns {connections} --timeout 1"
    )
}

/// What a report of httperf's says of it.
fn ended_per_s(report: &str, port: u16) -> Option<f64> {
    let number = |line: &str, name: &str| -> Option<f64> {
        let rest = report.lines().find_map(|told| told.strip_prefix(line))?;
        rest.split(name).nth(1)?.split_whitespace().next()?.parse().ok()
    };
    let ended = if port == SERVED {
        number("Total: ", "replies ")?
    } else {
        number("Errors: ", "connrefused ")?
    };
    ratio(ended, number("Total: ", "test-duration ")?)
}

/// A program that was built with this one.
fn beside(program: &str) -> PathBuf {
    let path = std::env::current_exe().expect("a path").with_file_name(program);
    assert!(path.is_file(), "{} is missing: `make bench` builds it", path.display());
    path
}

fn spent(cpu: usize) -> ProcessorTime {
    ProcessorTime::of(cpu).expect("the kernel tells it")
}

/// The most memory that this process ever had, in MiB.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0_u64) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_did_nothing_is_no_ones_match() {
        assert_eq!(ratio(500_000.0, 20_000.0), Some(25.0));
        assert_eq!(ratio(500_000.0, 0.0), None);
        assert_eq!(ratio(500_000.0, f64::NAN), None);
    }

    /// Up to a second of patience is behind what it does, and in its figure.
    #[test]
    fn httperf_is_refused_for_several_seconds() {
        let connections = |port, per_s| -> u32 {
            let line = httperf(port, per_s);
            let (_, rest) = line.split_once("--num-conns ").unwrap();
            rest.split_once(' ').unwrap().0.parse().unwrap()
        };
        for port in [CLOSED, GUARDED] {
            assert_eq!(connections(port, 10_000), 50_000);
            // It does no more than 40,000 of these a second.
            assert_eq!(connections(port, 160_000), 200_000);
        }
        assert_eq!(connections(SERVED, 40_000), 40_000, "its ports are in TIME-WAIT then");
    }

    #[test]
    fn a_report_is_read_or_told_to_be_none() {
        let report = "Maximum connect burst length: 3\n\n\
                      Total: connections 900 requests 400 replies 300 test-duration 2.000 s\n\n\
                      Errors: total 600 client-timo 0 socket-timo 0 connrefused 500 connreset 100\n";
        assert_eq!(ended_per_s(report, SERVED), Some(150.0));
        assert_eq!(ended_per_s(report, CLOSED), Some(250.0));
        for word in ["replies", "test-duration"] {
            assert_eq!(ended_per_s(&report.replace(word, "odd"), SERVED), None, "no {word}");
        }
        assert_eq!(ended_per_s(&report.replace("Errors", "Fehler"), CLOSED), None);
    }
}
