// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server says of itself is so.

use std::time::{Duration, Instant};

use tidegate_servers::ServerKind;

use crate::http::CLOSING;
use crate::running::{Way, get};

pub fn what_clients_saw_accepted_is_what_was_accepted(way: Way) {
    let server = way.start(|_| ());
    for _ in 0..50 {
        server.ask(CLOSING);
    }
    let mut stream = server.connect();
    for _ in 0..50 {
        get(&mut stream, "/");
    }
    drop(stream);
    let statistics = server.stop();
    assert_eq!((statistics.accepted, statistics.replies), (51, 100));
    assert!(statistics.accept_phases > 0 && statistics.work_phases > 0);
    // Each reply takes a turn of its own.
    assert!(statistics.work_items >= 100, "{statistics}");
    assert!(statistics.cpu_ns > 0 && statistics.elapsed_ns >= statistics.cpu_ns / 64);
}

pub fn a_running_server_tells_how_it_does(way: Way) {
    let server = way.start(|_| ());
    let mut stream = server.connect();
    for count in 1..=3 {
        get(&mut stream, "/");
        // It may still be about to post it.
        let started = Instant::now();
        while server.observer.statistics().replies < count {
            assert!(started.elapsed() < Duration::from_secs(5));
            std::thread::yield_now();
        }
        let statistics = server.observer.statistics();
        assert_eq!((statistics.replies, statistics.accepted), (count, 1));
        assert_eq!(statistics.contradiction(), None, "{statistics}");
    }
    server.stop();
}

pub fn calls_for_events_are_counted(way: Way) {
    let server = way.start(|_| ());
    let mut stream = server.connect();
    for _ in 0..20 {
        get(&mut stream, "/");
        // The server has nothing to do now, and notices.
        std::thread::sleep(Duration::from_millis(5));
    }
    let statistics = server.stop();
    // Each request arrives at a server that waits for it.
    assert!(statistics.event_calls >= 20, "{statistics}");
    assert!(statistics.fds_told >= 20, "{statistics}");
    if way.server == ServerKind::Userver {
        assert_eq!(statistics.accept_phases + 1, statistics.event_calls, "{statistics}");
    }
}
