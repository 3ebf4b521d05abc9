// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that accepts whoever is there, a thread for each: before `auto` has seen that it works for clients who have
//! gone nobody is kept out, and from then on it answers those who are there.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tidegate_crowd::{Class, Driver, Load, Outcome, Plan, run};
use tidegate_lab::Namespace;
use tidegate_tests::waits::guard;
use tidegate_tests::{CLIENT_V4, Guard, SERVER_V4, Stage, guard_of, serve, skip_without_root};

/// What it can do at the most, at 20 ms a request.
const MOST_PER_S: f64 = 50.0;
/// Clients wait for 2 s. Of twice as many as it can answer an eighth have been gone for a second after 7 s, and what it has
/// accepted takes it as long again.
const PATIENCE: Duration = Duration::from_secs(2);

fn crowd(client: &Namespace, duration: Duration) -> Outcome {
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let plan = Plan {
        driver: Driver::Raw,
        targets: vec![to],
        sources: vec![format!("{CLIENT_V4}/32").parse().expect("an address")],
        load: Load::Poisson { per_s: 2.0 * MOST_PER_S },
        duration,
        classes: vec![Class { timeout: PATIENCE, ..Class::default() }],
        ..Plan::default()
    };
    client.run(move || run(&plan).expect("a crowd"))
}

fn overload(guard: &Guard) -> Value {
    guard_of(&guard.status(), 80, None)["listeners"][0]["overload"].clone()
}

#[test]
fn a_server_that_is_behind_answers_those_who_are_there() {
    if skip_without_root("a_server_that_is_behind_answers_those_who_are_there") {
        return;
    }
    let stage = Stage::new("inside");
    let kind = ["--server=knot-a", "--threads=15000", "--port=80", "--cost-us=20000"];
    let _server = serve(&stage.server, &kind, Some(0));
    let config = "[[listener]]\nport = 80\nhook = \"ip\"\nauto = { patience_s = 2 }\n";
    let guard = guard(&stage.server, config);
    assert_eq!(overload(&guard)["behind"], false);
    crowd(&stage.client, Duration::from_secs(22));
    let known = overload(&guard);
    assert_eq!(known["behind"], true, "{known:#}");
    let came = crowd(&stage.client, Duration::from_secs(6));
    assert!(came.replies_per_s > MOST_PER_S / 2.0, "{came:#?}");
    guard.stop();
}
