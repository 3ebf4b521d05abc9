// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Studies with invented numbers, shaped like those of Shukla's thesis, to try the page on.

use std::collections::BTreeMap;

use tidegate_report::{Host, Point, Study, SynClass, Times, World};
use tidegate_scenarios::Scenario;

/// Requests per second that the invented server can do.
pub const CAPACITY: f64 = 8_700.0;

/// Like Figure 4.7, 4.9 and Table 4.4 in one: five curves at ten rates.
pub fn overload() -> Study {
    let scenario = parsed("invented-4.7", include_str!("overload.toml"));
    let mut points = Vec::new();
    for curve in CURVES {
        for load in [0.5, 0.8, 0.95, 1.1, 1.3, 1.5, 2.0, 3.0, 4.0, 5.0] {
            points.push(point("invented-4.7", curve, load, World::Live));
        }
    }
    points[9].warnings = vec!["the generator was late: it offered 4.7× instead".to_owned()];
    points[29].warnings = points[9].warnings.clone();
    study(scenario, points, "tidelab figure shukla-4.7")
}

/// Three curves in both worlds, a simulated point missing.
pub fn both_worlds() -> Study {
    let scenario = parsed("invented-worlds", include_str!("worlds.toml"));
    let mut points = Vec::new();
    for world in [World::Live, World::Sim] {
        for curve in ["default", "abort", "abort rst-syn"] {
            for load in [0.8, 1.2, 2.0, 3.0, 5.0] {
                points.push(point("invented-worlds", curve, load, world));
            }
        }
    }
    points.pop();
    study(scenario, points, "tidelab figure shukla-4.9 --world both")
}

/// A study on one machine.
pub fn study(scenario: Scenario, points: Vec<Point>, command: &str) -> Study {
    let host = Host {
        kernel: "6.12.48-amd64".to_owned(),
        processors: "4 processors, AMD EPYC 7763".to_owned(),
    };
    Study {
        scenario,
        points,
        machine: Some("xeon".to_owned()),
        hosts: vec![host],
        commands: vec![command.to_owned()],
        left_out: Vec::new(),
    }
}

/// A scenario from its text.
pub fn parsed(name: &str, text: &str) -> Scenario {
    Scenario::parse(name, name, text).expect("the text is right")
}

const CURVES: [&str; 5] = ["default", "abort", "reserv", "abort rst-syn", "reserv rst-syn"];

/// What the mechanisms do in the thesis, in rough: silence costs throughput, and seconds.
pub fn point(scenario: &str, curve: &str, load: f64, world: World) -> Point {
    let rank = CURVES.iter().position(|known| *known == curve).unwrap_or(0) as f64;
    let explicit = curve.contains("rst-syn");
    let over = (load - 1.0).max(0.0);
    // No two points alike, and every run of the test the same.
    let jitter = (load * 7.3 + rank * 2.1 + if world == World::Sim { 1.7 } else { 0.0 }).sin();
    let fall = if explicit { 0.018 } else { 0.075 };
    let worth = (1.0 - fall * over + 0.012 * rank * over.min(1.0) + 0.006 * jitter).max(0.2);
    let replies = CAPACITY * load.min(worth);
    let failed = (CAPACITY * load - replies).max(0.0);
    let mean = match (over > 0.0, explicit) {
        (false, _) => 1.2 + 6.0 * load.powi(6) + 0.2 * jitter.abs(),
        (true, true) => 31.0 - 3.0 * rank + 2.0 * jitter,
        (true, false) => 2400.0 + 380.0 * over.sqrt() - 220.0 * rank + 40.0 * jitter,
    };
    let attempts = (CAPACITY * load * 5.0) as u64;
    Point {
        scenario: scenario.to_owned(),
        world,
        curve: curve.to_owned(),
        mechanism: curve.to_owned(),
        server: "userver, backlog 128, one-packet".to_owned(),
        clients: "linux-2.4, timeout 10 s".to_owned(),
        tcp: None,
        capacity_per_s: CAPACITY,
        offered_per_s: CAPACITY * load,
        offered_over_capacity: load,
        attempts,
        replies_per_s: replies,
        replies_per_s_ci95: Some(0.012 * replies),
        response_ms: Times {
            mean,
            ci95: Some(0.06 * mean),
            p50: 0.8 * mean,
            p90: 1.7 * mean,
            p99: 2.9 * mean,
            max: 3.4 * mean,
            deviation: 0.7 * mean,
        },
        refusal_ms: Times::default(),
        delay_ms: Times::default(),
        answered_within_per_s: BTreeMap::new(),
        errors_per_s: named(&[
            (if explicit { "refused" } else { "timeout" }, failed * 0.97),
            ("reset", failed * 0.03),
        ]),
        queue_drops_per_s: named(&[
            ("ListenQFullAtSyn", failed * if explicit { 0.0 } else { 2.4 - 0.3 * rank }),
            ("ListenQOverflow_syn_ack_acks", failed * if explicit { 1.0 } else { 0.15 }),
        ]),
        verdicts_per_s: BTreeMap::new(),
        syns_per_attempt: syns(attempts, over, explicit, curve == "default"),
        segments: [("syn_sent".to_owned(), attempts + (over * attempts as f64 * 0.4) as u64)]
            .into(),
        cpu: {
            let (system, softirq) = (0.31 + 0.02 * jitter, (0.2 + 0.1 * over).min(0.5));
            let idle = 1.0 - 0.12 - system - softirq;
            named(&[("user", 0.12), ("system", system), ("softirq", softirq), ("idle", idle)])
        },
        cpu_calls: BTreeMap::new(),
        cpu_components: named(&[
            ("driver", 0.2696 - 0.012 * over),
            ("net-ip", 0.0345),
            ("net-tcp", 0.1659 + 0.02 * over),
            ("net-socket", 0.0792),
            ("net-other", 0.0382),
            ("server", 0.1309),
            ("mm", 0.0686),
            ("other-kernel", 0.1858 - 0.01 * over),
        ]),
        visits: [].into(),
        networks: [].into(),
        serving: [].into(),
        time_wait: [].into(),
        seconds: [].into(),
        kernel: [("TcpExtListenDrops".to_owned(), (failed * 12.0) as i64)].into(),
        kernel_s: Some(5.0),
        late_p99_ms: 0.3 + load * 0.2,
        warnings: Vec::new(),
        duration_s: 5.0,
        seed: 1,
    }
}

fn named(parts: &[(&str, f64)]) -> BTreeMap<String, f64> {
    parts.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

fn syns(attempts: u64, over: f64, explicit: bool, silent: bool) -> BTreeMap<u32, SynClass> {
    let share = |share: f64| (attempts as f64 * share) as u64;
    let failed = over / (over + 1.0);
    if explicit || over == 0.0 {
        return [(1, SynClass { attempts, errors: share(failed) })].into();
    }
    let once = 0.6 / (1.0 + 0.35 * over);
    let early = if silent { 0.0 } else { failed * 0.4 };
    [
        (1, SynClass { attempts: share(once), errors: share(once * early) }),
        (2, SynClass { attempts: share(0.09), errors: share(0.09 * early) }),
        (3, SynClass { attempts: share(0.91 - once), errors: share((0.91 - once) * failed) }),
    ]
    .into()
}
