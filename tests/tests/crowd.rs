// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crowd's own packets and this kernel's sockets tell the same of a server at ease.

use std::time::Duration;

use tidegate_crowd::{Class, Driver, Load, Outcome, Plan, run};
use tidegate_lab::{Child, Link, Namespace, allowed_cpus, pin_thread, skip_without_root};
use tidegate_tests::serve;

const ROUNDS: u64 = 7;
/// A request takes the server 10 ms, as a page that is made for it may: it is busy 30 % of the time.
/// (A client over sockets is woken by the kernel at each step, which comes to some 0.3 ms on two
/// virtual processors that were idle; of a page that takes 1 ms that would be a lot.)
const PER_S: f64 = 30.0;

struct Ground {
    _server: Child,
    clients: Namespace,
    crowd_cpu: usize,
}

impl Ground {
    fn lay() -> Self {
        let cpus = allowed_cpus().expect("processors");
        let (server_cpu, crowd_cpu) = (cpus[0], cpus[cpus.len() - 1]);
        let server = Namespace::new("modes-server").expect("a namespace");
        let clients = Namespace::new("modes-clients").expect("a namespace");
        let cable = Link::between(&server, "srv0", &clients, "cli0").expect("a cable");
        cable.a().add_address("10.66.0.1/16").expect("an address");
        for host in 2..10 {
            cable.b().add_address(&format!("10.66.0.{host}/16")).expect("an address");
        }
        cable.up().expect("both ends up");
        cable.a().receive_on(server_cpu).expect("receive packet steering");
        cable.b().receive_on(crowd_cpu).expect("receive packet steering");
        let child = serve(&server, &["--port=80", "--cost-us=10000"], Some(server_cpu));
        Self { _server: child, clients, crowd_cpu }
    }

    fn send(&self, driver: Driver, seed: u64) -> Outcome {
        let plan = Plan {
            driver,
            targets: vec!["10.66.0.1:80".parse().expect("an address")],
            sources: (2..10)
                .map(|host| format!("10.66.0.{host}/32").parse().expect("an address"))
                .collect(),
            load: Load::Poisson { per_s: PER_S },
            warm_up: Duration::from_millis(500),
            duration: Duration::from_secs(4),
            seed,
            classes: vec![Class { timeout: Duration::from_secs(2), ..Class::default() }],
            ..Plan::default()
        };
        let cpu = self.crowd_cpu;
        let sent = self.clients.thread(move || {
            pin_thread(cpu).expect("a processor");
            run(&plan).expect("a crowd")
        });
        sent.expect("a thread").join().expect("an outcome")
    }
}

/// The same schedule either way: throughput and mean response are within 5 %. Rounds alternate,
/// and the middle one counts: others may use this machine.
#[test]
fn both_ways_tell_the_same_below_saturation() {
    if skip_without_root("both_ways_tell_the_same_below_saturation") {
        return;
    }
    let ground = Ground::lay();
    let mut throughput = Vec::new();
    let mut response = Vec::new();
    for seed in 1..=ROUNDS {
        let raw = ground.send(Driver::Raw, seed);
        let sockets = ground.send(Driver::Sockets, seed);
        for outcome in [&raw, &sockets] {
            assert_eq!(outcome.replies, outcome.attempts, "{outcome:?}");
        }
        throughput.push(raw.replies_per_s / sockets.replies_per_s);
        response.push(raw.response_ms.mean / sockets.response_ms.mean);
    }
    for ratios in [&mut throughput, &mut response] {
        ratios.sort_by(f64::total_cmp);
        let middle = ratios[ratios.len() / 2];
        assert!((0.95..=1.05).contains(&middle), "raw to sockets: {ratios:?}");
    }
}
