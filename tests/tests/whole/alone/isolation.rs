// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guarded port in trouble leaves the clients of every other port untouched: while its
//! queue is full and it is flooded, nginx on a port guarded beside it and on one that nobody
//! guards answers every request. None has to send its SYN twice, which would cost it a
//! second; none is refused, reset or dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_lab::Counters;
use tidegate_tests::wire::{SYN, Segment, Wire, usual_options};
use tidegate_tests::{
    Answer, Guard, Nginx, Plain, SERVER_V4, Stage, Stalled, fetch, fill, guard_of, packets,
    packets_with, skip_without_root,
};

const TROUBLED: u16 = 80;
const GUARDED: u16 = 81;
const UNGUARDED: u16 = 82;
const BACKLOG: i32 = 8;
const PLACES: usize = 9;
/// SYNs of the flood, as fast as one core sends them: well over a second of it.
const FLOOD: usize = 200_000;
/// No request takes longer: half of what a lost SYN would cost it.
const BOUND: Duration = Duration::from_millis(500);
/// What a core that is shared with the flood may add to the median, which was 3 times as small.
const SLACK: Duration = Duration::from_millis(20);
const REQUESTS_LEAST: usize = 50;

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), port)
}

/// SYNs to the troubled port from many addresses and ports.
fn flood(wire: &Wire) {
    let frames: Vec<Vec<u8>> = (0..2000u16)
        .map(|i| {
            let from = format!("10.77.0.{}:{}", 100 + i % 100, 10000 + i);
            let from = from.parse().expect("an address and a port");
            let syn = Segment::new(from, at(TROUBLED), SYN, u32::from(i), 0);
            wire.frame(&Segment { options: usual_options(1), ..syn })
        })
        .collect();
    frames.iter().cycle().take(FLOOD).for_each(|frame| wire.send_frame(frame));
}

/// Requests to both healthy ports while `go_on` says so: how long each took.
fn requests(stage: &Stage, mut go_on: impl FnMut(usize) -> bool) -> Vec<Duration> {
    let mut took = Vec::new();
    while go_on(took.len()) {
        for port in [GUARDED, UNGUARDED] {
            let seen = fetch(&stage.client, at(port), Duration::from_secs(5));
            assert_eq!(seen.answer, Answer::Status(200), "a request to port {port}");
            took.push(seen.after);
        }
    }
    took.sort();
    took
}

fn syns_sent_twice(stage: &Stage) -> i64 {
    let counters = Counters::of(&stage.client).expect("kernel counters");
    counters.get("TcpExtTCPSynRetrans").expect("a count of SYNs sent again")
}

/// The story, with what the flood is answered by: reason and verdict.
fn story(mechanism: &str, counted: (&str, &str)) {
    let stage = Stage::new("isolation");
    let _troubled = Stalled::new(&stage.server, at(TROUBLED), BACKLOG);
    let crowd = fill(&stage.client, at(TROUBLED), PLACES);
    let _nginx = Nginx::start(&stage.server, &["81", "82"]);
    let path = std::env::temp_dir().join(format!("tidegate-isolation-{}.toml", stage.server.tid()));
    let section = |port| format!("[[listener]]\nport = {port}\nmechanism = \"{mechanism}\"\n");
    std::fs::write(&path, section(TROUBLED) + &section(GUARDED)).expect("a configuration file");
    let guard = Guard::try_start(&stage.server, &["--config", path.to_str().expect("UTF-8")]);
    std::fs::remove_file(&path).expect("the configuration file");
    let guard = guard.unwrap_or_else(|refused| panic!("{}", refused.stderr));

    let calm = requests(&stage, |made| made < 200);
    let twice_before = syns_sent_twice(&stage);
    let wire = Wire::of(&stage);
    let done = Arc::new(AtomicBool::new(false));
    let flooding = {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            flood(&wire);
            done.store(true, Ordering::Relaxed);
        })
    };
    let goes_on = || !done.load(Ordering::Relaxed) && !flooding.is_finished();
    let busy = requests(&stage, |made| goes_on() || made < 2 * REQUESTS_LEAST);
    flooding.join().expect("the flood was sent");

    let (calm_median, median) = (calm[calm.len() / 2], busy[busy.len() / 2]);
    let worst = busy[busy.len() - 1];
    eprintln!(
        "{mechanism}: {} requests, median {median:?} (calm {calm_median:?}), worst {worst:?}",
        busy.len()
    );
    assert!(worst < BOUND, "the slowest request took {worst:?}");
    assert!(median < calm_median * 3 + SLACK, "half took {median:?}, before {calm_median:?}");
    assert_eq!(syns_sent_twice(&stage), twice_before, "every SYN was answered at once");

    let status = guard.status();
    let troubled = guard_of(&status, TROUBLED, None);
    let (reason, verdict) = counted;
    assert!(packets(troubled, reason, verdict) >= FLOOD as u64 * 9 / 10, "{status:#}");
    let healthy = guard_of(&status, GUARDED, None);
    for verdict in ["drop", "reset", "cookie", "hollow", "admit"] {
        assert_eq!(packets_with(healthy, verdict), 0, "{verdict} on port {GUARDED}: {status:#}");
    }
    let with_room = ["Room", "Handshake"].map(|reason| packets(healthy, reason, "pass"));
    assert_eq!(packets_with(healthy, "pass"), with_room.iter().sum::<u64>(), "{status:#}");
    let listeners = healthy["listeners"].as_array().expect("listeners");
    assert_eq!(listeners.len(), 1, "nginx's: {status:#}");
    for listener in listeners {
        assert_eq!(listener["kernel_drops"], 0, "{status:#}");
    }
    crowd.into_iter().for_each(Plain::discard);
    guard.stop();
}

#[test]
fn a_flood_that_is_refused_harms_no_other_port() {
    if skip_without_root("isolation, abort rst-syn") {
        return;
    }
    story("abort rst-syn", ("ListenQFullAtSyn", "reset"));
}

#[test]
fn a_flood_that_is_answered_with_cookies_harms_no_other_port() {
    if skip_without_root("isolation, no-syn-drop") {
        return;
    }
    story("no-syn-drop", ("ListenQFullAtSyn", "cookie"));
}

#[test]
fn a_flood_that_finds_no_reservation_harms_no_other_port() {
    if skip_without_root("isolation, reserv") {
        return;
    }
    story("reserv", ("ListenQFullAtSyn", "drop"));
}

/// Clients that try again as soon as they are refused: the hottest that a refusal can make.
#[test]
fn hot_retriers_harm_no_other_port() {
    if skip_without_root("isolation, hot retriers") {
        return;
    }
    let stage = Stage::new("retriers");
    let _troubled = Stalled::new(&stage.server, at(TROUBLED), BACKLOG);
    let _crowd = fill(&stage.client, at(TROUBLED), PLACES);
    let _nginx = Nginx::start(&stage.server, &["81", "82"]);
    let guard = Guard::on_port(&stage.server, TROUBLED, "abort rst-syn", "auto");
    let done = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicU64::new(0));
    let retriers: Vec<_> = (0..4)
        .map(|_| {
            let (client, done, refused) =
                (stage.client.clone(), Arc::clone(&done), Arc::clone(&refused));
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let seen = fetch(&client, at(TROUBLED), Duration::from_secs(5));
                    assert_eq!(seen.answer, Answer::Refused);
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // One that was not refused has ended, and is told of below.
    let go_on = || !retriers.iter().any(thread::JoinHandle::is_finished);
    let few = || refused.load(Ordering::Relaxed) < 5000;
    let took = requests(&stage, |made| made < 200 || (few() && go_on()));
    done.store(true, Ordering::Relaxed);
    for retrier in retriers {
        retrier.join().expect("every attempt was refused");
    }
    assert!(took[took.len() - 1] < BOUND, "the slowest request took {:?}", took[took.len() - 1]);
    assert_eq!(syns_sent_twice(&stage), 0, "every SYN was answered at once");
    guard.stop();
}
