// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crowd's own packets and this kernel's sockets tell the same of a server at ease.

use std::time::Duration;

use tidegate_crowd::{Class, Driver, Load, Outcome, Plan, run};
use tidegate_lab::{Child, Link, Namespace, allowed_cpus, pin_thread, skip_without_root};
use tidegate_tests::serve;

const ROUNDS: usize = 7;
const SEED: u64 = 1;
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

/// The same schedule either way: throughput and mean response are within 5 %. Others may use this
/// machine, which makes a response longer and never shorter: of several rounds of one schedule, in
/// turn, the least disturbed of each way counts.
#[test]
fn both_ways_tell_the_same_below_saturation() {
    if skip_without_root("both_ways_tell_the_same_below_saturation") {
        return;
    }
    let ground = Ground::lay();
    let ways = [Driver::Raw, Driver::Sockets];
    let mut rounds: [Vec<Outcome>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (rounds, way) in rounds.iter_mut().zip(ways) {
            let outcome = ground.send(way, SEED);
            assert_eq!(outcome.replies, outcome.attempts, "{outcome:?}");
            rounds.push(outcome);
        }
    }
    let means_ms = rounds.each_ref().map(|rounds| {
        let mut means_ms: Vec<f64> =
            rounds.iter().map(|outcome| outcome.response_ms.mean).collect();
        means_ms.sort_by(f64::total_cmp);
        means_ms
    });
    let most_per_s = rounds.each_ref().map(|rounds| {
        rounds.iter().map(|outcome| outcome.replies_per_s).max_by(f64::total_cmp).expect("a round")
    });
    for ratio in [most_per_s[0] / most_per_s[1], means_ms[0][0] / means_ms[1][0]] {
        assert!((0.95..=1.05).contains(&ratio), "raw to sockets: {ratio}, {means_ms:?} ms");
    }
}
