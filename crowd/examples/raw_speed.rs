// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a raw crowd does on one processor, against a server on another.
//!
//! `raw_speed [closed|silent|million|late] [exchange SERVER PROGRAM…] [refused PROGRAM… + PROGRAM…]`
//!
//! Needs root and two processors. Without arguments: closed, silent, million and late. Programs
//! are started in the server's namespace (10.0.0.1, interface srv0), bound to its processor.

use std::fs;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use tidegate_crowd::{Class, Close, Driver, Load, Outcome, Plan, run};
use tidegate_lab::{Child, Link, Namespace, allowed_cpus, pin_command};

const SERVER: &str = "10.0.0.1:80";
/// What is sent there is dropped.
const NOBODY: &str = "10.0.0.9:80";
const STARTING: Duration = Duration::from_millis(700);

struct Bench {
    server: Namespace,
    clients: Namespace,
    _link: Link,
    server_cpu: usize,
    crowd_cpu: usize,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen = words.first().map_or("all", String::as_str);
    let all = chosen == "all";
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6}",
        "", "offered/s", "done/s", "p50 ms", "late p99", "crowd", "server", "MiB"
    );
    if all || chosen == "closed" {
        for per_s in [100e3, 200e3, 300e3, 400e3, 500e3] {
            Bench::new().show("a closed port", &plan(SERVER, poisson(per_s), 2.0));
        }
        let clients = Load::Closed { clients: 200 };
        Bench::new().show("a closed port, 200 clients", &plan(SERVER, clients, 2.0));
    }
    if all || chosen == "silent" {
        Bench::new().show("silence, two SYNs each", &plan(NOBODY, poisson(200e3), 1.5));
    }
    if all || chosen == "million" {
        Bench::new().show("silence, a million in flight", &plan(NOBODY, poisson(110e3), 10.5));
    }
    if all || chosen == "late" {
        for per_s in [1e3, 10e3, 50e3] {
            Bench::new().show("a closed port, moderately", &plan(SERVER, poisson(per_s), 2.0));
        }
    }
    if chosen == "exchange" || chosen == "refused" {
        let bench = Bench::new();
        let programs = words[1..].split(|word| word == "+");
        let _programs: Vec<Child> = programs.map(|words| bench.start(words)).collect();
        let loads = if chosen == "exchange" {
            vec![Load::Closed { clients: 20 }, Load::Closed { clients: 200 }, poisson(30e3)]
        } else {
            vec![poisson(400e3), poisson(800e3)]
        };
        for load in loads {
            for close in [Close::Fin, Close::Reset] {
                let class = Class { close, ..plan(SERVER, load, 2.0).classes[0].clone() };
                let plan = Plan { classes: vec![class], ..plan(SERVER, load, 2.0) };
                bench.show(&format!("{chosen}, {close:?}"), &plan);
            }
        }
    }
}

fn poisson(per_s: f64) -> Load {
    Load::Poisson { per_s }
}

fn plan(target: &str, load: Load, timeout_s: f64) -> Plan {
    let patience = Duration::from_secs_f64(timeout_s);
    Plan {
        driver: Driver::Raw,
        targets: vec![target.parse().expect("an address")],
        sources: vec!["10.128.0.0/16".parse().expect("a prefix")],
        load,
        duration: patience.mul_f64(1.2).max(Duration::from_secs(3)),
        classes: vec![Class { timeout: patience, ..Class::default() }],
        ..Plan::default()
    }
}

impl Bench {
    fn new() -> Self {
        let cpus = allowed_cpus().expect("the kernel says");
        let [crowd_cpu, server_cpu, ..] = cpus[..] else { panic!("it takes two processors") };
        let server = Namespace::new("speed-server").expect("a namespace");
        let clients = Namespace::new("speed-clients").expect("a namespace");
        let link = Link::between(&server, "srv0", &clients, "cli0").expect("a cable");
        link.a().add_address("10.0.0.1/24").expect("an address");
        link.b().add_address("10.0.0.2/24").expect("an address");
        link.up().expect("both ends");
        link.a().receive_on(server_cpu).expect("receive packet steering");
        let hardware_address = |namespace: &Namespace, end: &str| {
            let file = format!("/sys/class/net/{end}/address");
            namespace.read_file(file).expect("it has one").trim().to_owned()
        };
        let far = hardware_address(&clients, "cli0");
        let near = hardware_address(&server, "srv0");
        let neighbor = |ip: &str, mac: &str, end: &str| {
            format!("neighbor replace {ip} lladdr {mac} dev {end} nud permanent")
        };
        server.ip(&neighbor("10.0.0.2", &far, "srv0")).expect("a neighbour");
        clients.ip(&neighbor("10.0.0.9", &near, "cli0")).expect("a neighbour");
        link.a().add_route("10.128.0.0/16", Some("10.0.0.2")).expect("a route");
        Self { server, clients, _link: link, server_cpu, crowd_cpu }
    }

    fn start(&self, words: &[String]) -> Child {
        let mut command = self.server.command(&words.join(" "));
        pin_command(&mut command, self.server_cpu).expect("a processor");
        let child = self.server.spawn(command).expect("a program");
        std::thread::sleep(STARTING);
        child
    }

    fn show(&self, what: &str, plan: &Plan) {
        let before = busy_s();
        let begun = std::time::Instant::now();
        let outcome = self.send(plan.clone());
        let took_s = begun.elapsed().as_secs_f64();
        let busy = busy_s().iter().zip(before).map(|(after, before)| after - before).collect();
        let busy: Vec<f64> = busy;
        let done = outcome.replies + outcome.errors.turned_away();
        let p50_ms = outcome.response_ms.p50.max(outcome.refusal_ms.p50);
        println!(
            "{what:<34} {:>9.0} {:>9.0} {p50_ms:>9.3} {:>9.3} {:>5.0}% {:>5.0}% {:>6}",
            outcome.offered_per_s,
            // What came late still took the processor's time.
            done as f64 / outcome.duration_s.max(took_s),
            outcome.late_starts.p99_ms,
            100.0 * busy[self.crowd_cpu] / took_s,
            100.0 * busy[self.server_cpu] / took_s,
            peak_mib(),
        );
        println!(
            "{:<34} in flight {}, {:?}, {}",
            "", outcome.in_flight_max, outcome.errors, outcome.driver
        );
    }

    fn send(&self, plan: Plan) -> Outcome {
        let mut cpus = CpuSet::new();
        cpus.set(self.crowd_cpu).expect("a processor");
        let crowd = self.clients.thread(move || {
            sched_setaffinity(Pid::from_raw(0), &cpus).expect("a processor");
            run(&plan).expect("a crowd")
        });
        crowd.expect("a thread").join().expect("an outcome")
    }
}

/// Seconds that each processor has not been idle.
fn busy_s() -> Vec<f64> {
    let told = fs::read_to_string("/proc/stat").expect("it is there");
    let processors = told.lines().filter(|line| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let busy = processors.map(|line| {
        let ticks: Vec<f64> =
            line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // All but idle and waiting for a disk, in hundredths.
        (ticks.iter().take(8).sum::<f64>() - ticks[3] - ticks[4]) / 100.0
    });
    busy.collect()
}

/// The most memory that this process ever had, in MiB.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0_u64) / 1024
}
