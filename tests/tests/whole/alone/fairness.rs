// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fair share for each network of clients (Stoica, Shenker and Zhang, SIGCOMM 1998): one that sends
//! fifty times what each of the others does gets no more than its share, and the others do alike.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tidegate_policy::share::max_min;
use tidegate_tests::{
    Dialed, Fate, Guard, SERVER_V4, Stage, Stalled, dial, guard_of, more_addresses, packets,
    skip_without_root,
};

/// Clients, each a network of its own; the last sends fifty times as much.
const CLIENTS: usize = 8;
const TIMES: u32 = 50;
/// What each of the others sends: one connection every so often.
const EVERY: Duration = Duration::from_millis(50);
/// What the server takes: one connection every so often, 250 a second.
const TAKES_EVERY: Duration = Duration::from_millis(4);
const BACKLOG: i32 = 32;
/// Until the limit has been found.
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(10);
/// Without shares there is nothing to find, and a third of the time shows it.
const SHOWN: Duration = Duration::from_secs(5);
/// On the same link everyone has an answer by then.
const ANSWERED: Duration = Duration::from_millis(100);

fn address(client: usize) -> IpAddr {
    format!("10.77.0.{}", 100 + client).parse().expect("an address")
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sent: u32,
    connected: u32,
}

impl Seen {
    fn success(self) -> f64 {
        f64::from(self.connected) / f64::from(self.sent)
    }
}

/// Connections of all clients, at their rates, for that long; what became of them, but for the warm-up.
fn send(stage: &Stage, to: SocketAddr, warm_up: Duration, measured: Duration) -> Vec<Seen> {
    let begun = Instant::now();
    let every = |client| if client + 1 == CLIENTS { EVERY / TIMES } else { EVERY };
    let mut next: Vec<Instant> =
        (0..CLIENTS).map(|client| begun + EVERY * client as u32 / CLIENTS as u32).collect();
    let mut ports = [1024_u16; CLIENTS];
    let mut seen = vec![Seen::default(); CLIENTS];
    let mut under_way: Vec<(usize, Instant, Dialed)> = Vec::new();
    while begun.elapsed() < warm_up + measured {
        for client in 0..CLIENTS {
            while next[client] <= Instant::now() {
                let from = SocketAddr::new(address(client), ports[client]);
                let mut dialed = dial(&stage.client, vec![from], to);
                under_way.push((client, next[client], dialed.remove(0)));
                ports[client] += 1;
                next[client] += every(client);
            }
        }
        under_way.retain_mut(|(client, at, dialed)| {
            if at.elapsed() < ANSWERED {
                return true;
            }
            if *at >= begun + warm_up {
                seen[*client].sent += 1;
                seen[*client].connected += u32::from(dialed.fate() == Fate::Connected);
            }
            false
        });
        sleep(Duration::from_millis(1));
    }
    seen
}

/// Of what they came to together.
fn fair_share(seen: &[Seen]) -> f64 {
    let sent: Vec<f64> = seen.iter().map(|seen| f64::from(seen.sent)).collect();
    max_min(&sent, seen.iter().map(|seen| f64::from(seen.connected)).sum())
}

/// With an address for each of the clients.
fn stage_of_networks(label: &str) -> Stage {
    let stage = Stage::new(label);
    more_addresses(&stage, CLIENTS as u8);
    stage
}

/// Has a thread end that looks at it, also when there is a panic: a scope waits for its threads.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A server that takes so many a second, and closes them; it listens on, before its guard.
fn serve(
    stage: &Stage,
    configuration: &str,
    (warm_up, measured): (Duration, Duration),
) -> (Vec<Seen>, Guard, Stalled) {
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let listener = Stalled::new(&stage.server, to, BACKLOG);
    let text = format!("[[listener]]\nport = 80\nmechanism = \"abort rst-syn\"\n{configuration}\n");
    stage.server.run(move || fs::write("/run/tidegate.toml", text).expect("a configuration"));
    let guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);
    let is_over = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = Instant::now();
            while !is_over.load(Ordering::Relaxed) {
                listener.accept_one();
                next += TAKES_EVERY;
                sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        let _ends = Ends(&is_over);
        send(stage, to, warm_up, measured)
    });
    (seen, guard, listener)
}

#[test]
fn one_network_at_fifty_times_the_rate_gets_no_more_than_its_share() {
    if skip_without_root("one_network_at_fifty_times_the_rate_gets_no_more_than_its_share") {
        return;
    }
    let without = stage_of_networks("fairness-without");
    let stage = stage_of_networks("fairness");
    let ((fair, guard, _listener), unfair) = thread::scope(|scope| {
        // While the limit is looked for.
        let unfair = scope.spawn(|| {
            let (unfair, guard, listener) = serve(&without, "", (Duration::ZERO, SHOWN));
            drop(listener);
            guard.stop();
            unfair
        });
        let fair = serve(&stage, "fair_share = { ipv4_bits = 32 }", (WARM_UP, MEASURED));
        (fair, unfair.join().expect("what is seen"))
    });
    let (large, _) = unfair.split_last().expect("clients");
    let most = f64::from(large.connected);
    assert!(most > 1.5 * fair_share(&unfair), "without shares it has most: {unfair:?}");

    let (share, (large, others)) = (fair_share(&fair), fair.split_last().expect("clients"));
    println!("without shares {unfair:?}\nwith shares of {share:.0} {fair:?}");
    // Five hundredths, and three times what chance makes of a count.
    let had = f64::from(large.connected);
    assert!(had <= 1.05 * share + 3.0 * share.sqrt(), "{had} of shares of {share}: {fair:?}");
    let success = others.iter().map(|seen| seen.success()).sum::<f64>() / others.len() as f64;
    assert!(success >= 0.95, "there is room for all of the others: {fair:?}");
    for other in others {
        let chance = 3.0 * (success * (1.0 - success) / f64::from(other.sent)).sqrt();
        assert!((other.success() - success).abs() <= 0.05 * success + chance, "{fair:?}");
    }
    let status = guard.status();
    let ours = guard_of(&status, 80, None);
    assert!(packets(ours, "BeyondShare", "reset") > u64::from(large.sent) / 2, "{status:#}");
    let told = &ours["listeners"][0]["fair_share"];
    assert_eq!(told["ipv4_bits"], 32, "{status:#}");
    assert!(told["limit_per_s"].as_f64().is_some_and(|limit| limit > 20.0), "{status:#}");
    guard.stop();
}
