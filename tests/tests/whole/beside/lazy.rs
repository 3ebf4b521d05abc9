// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lazy accept(): while a real nginx does not take those who wait for it, sixteen and no more have a
//! SYN/ACK, though its listen queue has room for 129; and when it takes them the next ones have.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{
    Answer, CLIENT_V4, CLIENT_V6, Guard, Nginx, Plain, SERVER_V4, SERVER_V6, Stage, fetch, fill,
    guard_of, packets, run_to_end, skip_without_root, until,
};

const PATIENCE: Duration = Duration::from_secs(2);
/// Who has heard nothing for so long was not answered.
const SILENCE: Duration = Duration::from_millis(300);
const AHEAD: usize = 16;
/// A SYN that another processor let through may be counted beside its connection for a moment.
const PROCESSORS: usize = 2;

/// What `tidegate explain` tells of a SYN to this address and port.
fn explained(stage: &Stage, to: SocketAddr) -> Value {
    let client = if to.is_ipv4() { CLIENT_V4 } else { CLIENT_V6 };
    let from = SocketAddr::new(client.parse().expect("an address"), 1).to_string();
    let asked = ["explain", "--from", &from, "--to", &to.to_string(), "--json"];
    serde_json::from_slice(&run_to_end(&stage.server, &asked).stdout).expect("JSON")
}

fn story(label: &str, address: &str, listen: &str) {
    let stage = Stage::new(label);
    let to = SocketAddr::new(address.parse().expect("an address"), 80);
    let nginx = Nginx::start(&stage.server, &[listen]);
    for (mechanism, verdict) in [("lazy", "drop"), ("lazy rst-syn", "reset")] {
        let guard = Guard::on_port(&stage.server, 80, mechanism, "ip");
        for _ in 0..50 {
            assert_eq!(fetch(&stage.client, to, PATIENCE).answer, Answer::Status(200));
        }
        nginx.freeze();
        let mut waiting = fill(&stage.client, to, AHEAD - PROCESSORS);
        let mut next = Plain::connect(&stage.client, 0, to, SILENCE);
        while next.connected() {
            waiting.push(next);
            assert!(waiting.len() <= AHEAD, "{mechanism}: {} were let in", waiting.len());
            next = Plain::connect(&stage.client, 0, to, SILENCE);
        }
        let status = guard.status();
        let ours = guard_of(&status, 80, None);
        assert_eq!(ours["mechanism"], mechanism);
        assert!(packets(ours, "NoReservation", verdict) > 0, "{ours:#}");
        // Nobody is half-open, and none is told of.
        let mut told = Value::Null;
        until("every place is taken by who waits for nginx", || {
            waiting.push(Plain::connect(&stage.client, 0, to, SILENCE));
            told = explained(&stage, to);
            told["reason"] == "NoReservation" && told["listener"]["syn_queue"]["length"] == 0
        });
        let words = told["words"].as_str().expect("words");
        assert!(words.contains("connections that wait for accept(), and half-open"), "{words}");
        nginx.thaw();
        drop(waiting);
        until("the next one is let in", || {
            fetch(&stage.client, to, PATIENCE).answer == Answer::Status(200)
        });
        guard.stop();
    }
}

#[test]
fn lazy_answers_no_syn_before_nginx_takes_those_who_wait() {
    if skip_without_root("lazy_answers_no_syn_before_nginx_takes_those_who_wait") {
        return;
    }
    story("lazy-v4", SERVER_V4, "80 backlog=128");
}

#[test]
fn lazy_does_the_same_over_ipv6() {
    if skip_without_root("lazy_does_the_same_over_ipv6") {
        return;
    }
    story("lazy-v6", SERVER_V6, "[::]:80 ipv6only=on backlog=128");
}
