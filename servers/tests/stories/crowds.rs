// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many clients at once.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tidegate_servers::{AcceptLimit, SATURATED_AFTER, ServerKind};

use crate::http::CLOSING;
use crate::running::{Running, Way, read_reply};

/// One crowd at a time: all stories share the descriptors of one process.
static CROWD: Mutex<()> = Mutex::new(());
/// What says whom to ask, and how many are to.
const CLIENTS: &str = "TIDEGATE_STORY_CLIENTS";
const BODY_BYTES: usize = 100;
/// A page that takes as long as many short ones.
const LONG: &[u8] = b"GET /work/700000 HTTP/1.1\r\nConnection: close\r\n\r\n";

pub fn two_thousand_are_held_at_once(way: Way) {
    held_at_once(way, 2000);
}

pub fn ten_thousand_are_held_at_once(way: Way) {
    held_at_once(way, 10_000);
}

/// Connections that are all open before the first asks, and until the last is answered, twice.
fn held_at_once(way: Way, clients: u64) {
    let _alone = CROWD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = way.start(|settings| {
        settings.body_bytes = BODY_BYTES as u64;
        settings.backlog = 4096;
        settings.threads = way.threads(clients as u32);
    });
    // In a process of their own: both ends of each would be too many descriptors for one.
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "crowds::clients"])
        .env(CLIENTS, format!("{} {clients}", server.address))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let statistics = server.stop();
    assert_eq!((statistics.accepted, statistics.replies), (clients, 2 * clients));
    assert_eq!(statistics.connections_max, clients);
    assert_eq!((statistics.accept_failures, statistics.timed_out), (0, 0));
}

#[test]
#[ignore = "the clients of other stories"]
fn clients() {
    let Ok(order) = std::env::var(CLIENTS) else { return };
    let (address, count) = order.split_once(' ').unwrap();
    let count: u32 = count.parse().unwrap();
    raise_descriptor_limit(u64::from(count) + 100);
    let mut streams: Vec<TcpStream> =
        (0..count).map(|_| TcpStream::connect(address).unwrap()).collect();
    for _ in 0..2 {
        for stream in &mut streams {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        }
        for stream in &mut streams {
            assert_eq!(read_reply(stream, false).body.len(), BODY_BYTES);
        }
    }
}

fn raise_descriptor_limit(wanted: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < wanted {
        let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted));
        raised.expect("these stories need more descriptors: raise `ulimit -n`, or be root");
    }
}

/// Clients that come at once, in waves, each for one reply.
fn serve_waves(server: &Running, waves: u32, clients: u32) {
    for _ in 0..waves {
        let mut streams: Vec<TcpStream> = (0..clients).map(|_| server.connect()).collect();
        for stream in &mut streams {
            stream.write_all(CLOSING).unwrap();
        }
        for stream in &mut streams {
            assert_eq!(read_reply(stream, false).status, 200);
        }
    }
}

pub fn every_limit_serves_everyone(way: Way) {
    let _alone = CROWD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for limit in ["1", "10", "inf", "dynamic"] {
        let limit: AcceptLimit = limit.parse().unwrap();
        let server = way.start(|settings| settings.accept_limit = limit);
        serve_waves(&server, 5, 100);
        let statistics = server.stop();
        assert_eq!((statistics.accepted, statistics.replies), (500, 500), "{limit}");
        if let AcceptLimit::AtMost(most) = limit {
            // Equation 4.2.
            assert!(statistics.accepted_per_phase() <= f64::from(most.get()), "{statistics}");
        }
    }
}

/// Clients that have all asked, and closed their side, before a server of one thread looks at its listen queue:
/// it is at a long page. What it holds then is up to itself.
fn overlap(server: &Running, clients: u32) {
    let asks = |request: &[u8]| {
        let mut stream = server.connect();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream
    };
    let long = asks(LONG);
    // It has begun.
    std::thread::sleep(Duration::from_millis(100));
    let short: Vec<TcpStream> = (0..clients).map(|_| asks(CLOSING)).collect();
    for mut stream in short.into_iter().chain([long]) {
        assert_eq!(read_reply(&mut stream, false).status, 200);
    }
}

/// Pariag, chapter 6: once saturated, as many as were closed in the last work phase. A thread of Knot-C has
/// nothing to work on when it accepts, and takes its share of those who wait whoever has left.
pub fn saturated_dynamic_lets_in_one_for_each_that_has_left(way: Way) {
    const MANY: u32 = 2 * SATURATED_AFTER;
    let _alone = CROWD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    raise_descriptor_limit(u64::from(3 * MANY));
    let server = way.start(|settings| {
        settings.accept_limit = AcceptLimit::Dynamic;
        settings.backlog = 4096;
        settings.cost_us = 300;
    });
    // By these it learns that each leaves after a few rounds.
    overlap(&server, MANY / 6);
    let begun = Instant::now();
    overlap(&server, MANY);
    let took = begun.elapsed();
    let statistics = server.stop();
    let all = u64::from(MANY / 6 + MANY) + 2;
    assert_eq!((statistics.accepted, statistics.replies), (all, all));
    // Where it hears of nobody who has left, it lets in one every tenth of a second: half of them.
    assert!(took < Duration::from_secs(15), "{took:?}");
    if matches!(way.server, ServerKind::Userver | ServerKind::Tux) {
        let most = statistics.connections_max;
        assert!(most.abs_diff(SATURATED_AFTER.into()) <= 2, "{most} at a time: {statistics}");
    }
}

pub fn workers_share_the_port(way: Way) {
    let _alone = CROWD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = way.start(|settings| settings.workers = 3.try_into().unwrap());
    serve_waves(&server, 3, 60);
    assert_eq!(server.stop().replies, 180);
}

pub fn a_busy_worker_holds_up_no_other(way: Way) {
    let _alone = CROWD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = way.start(|settings| {
        settings.workers = 3.try_into().unwrap();
        // A worker is as busy as its one thread.
        settings.threads = way.threads(1);
    });
    let answers = |request: &[u8]| {
        let reply = server.ask(request);
        assert!(reply.starts_with("HTTP/1.1 200 "), "{reply:.40}");
        Instant::now()
    };
    let (long, short) = std::thread::scope(|scope| {
        let long = scope.spawn(|| answers(LONG));
        // It has begun.
        std::thread::sleep(Duration::from_millis(100));
        let short: Vec<_> = (0..30).map(|_| scope.spawn(|| answers(CLOSING))).collect();
        let short = short.into_iter().map(|thread| thread.join().unwrap());
        (long.join().unwrap(), short.collect::<Vec<Instant>>())
    });
    // The kernel gives each a worker by its port: a third of them wait. Who waited may seem to have
    // been answered a little before.
    let other = short.iter().any(|answered| *answered + Duration::from_millis(100) < long);
    assert!(other, "none was another worker's");
    assert_eq!(server.stop().replies, 31);
}
