// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate status` says what Pariag would change about how a server accepts: before a userver that
//! has more clients than it can serve the advice is another one with Accept-1 than with Accept-Inf,
//! and there is none while it keeps up.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_crowd::{Class, Driver, Load, Plan, run};
use tidegate_lab::{allowed_cpus, pin_thread};
use tidegate_tests::{
    CLIENT_V4, Guard, SERVER_V4, Stage, guard_of, run_to_end, serve, skip_without_root,
};

/// A server of 1 ms a request serves less than this. (Twice as many come in time on a machine that others
/// use, too.)
const MOST_PER_S: f64 = 1000.0;
/// Something is said by then, if there is anything to say.
const WITHIN: Duration = Duration::from_secs(4);
/// So long the rule remembers.
const REMEMBERED: Duration = Duration::from_secs(2);

fn accepts(status: &Value) -> Value {
    guard_of(status, 80, None)["listeners"][0]["accepts"].clone()
}

/// What is said of the listening socket while so many come a second, once as much has been seen as
/// the rule remembers, and how many replies a second there were.
fn accepts_under(stage: &Stage, guard: &Guard, per_s: f64) -> (Value, String, f64) {
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let plan = Plan {
        driver: Driver::Raw,
        targets: vec![to],
        sources: vec![format!("{CLIENT_V4}/32").parse().expect("an address")],
        load: Load::Poisson { per_s },
        duration: WITHIN + REMEMBERED,
        classes: vec![Class { timeout: Duration::from_secs(1), ..Class::default() }],
        ..Plan::default()
    };
    let cpu = *allowed_cpus().expect("processors").last().expect("one at least");
    let crowd = stage.client.thread(move || {
        pin_thread(cpu).expect("a processor");
        run(&plan).expect("a crowd")
    });
    let begun = Instant::now();
    while accepts(&guard.status()).is_null() && begun.elapsed() < WITHIN {
        sleep(Duration::from_millis(100));
    }
    sleep(REMEMBERED);
    let said = accepts(&guard.status());
    let table = run_to_end(&stage.server, &["status"]);
    let outcome = crowd.expect("a thread").join().expect("an outcome");
    (said, String::from_utf8_lossy(&table.stdout).into_owned(), outcome.replies_per_s)
}

fn story(limit: &str, advice: &str, words: &str) {
    let stage = Stage::new("accepts");
    let cpu = allowed_cpus().expect("processors")[0];
    let limit = format!("--accept-limit={limit}");
    let _server = serve(&stage.server, &["--port=80", "--cost-us=1000", &limit], Some(cpu));
    let guard = Guard::on_port(&stage.server, 80, "abort rst-syn", "ip");
    let (calm, ..) = accepts_under(&stage, &guard, MOST_PER_S / 10.0);
    assert_eq!(calm, Value::Null, "nobody was refused");
    let (accepts, table, served_per_s) = accepts_under(&stage, &guard, 2.0 * MOST_PER_S);
    println!("{accepts:#}");
    assert_eq!(accepts["advice"], advice, "{accepts:#}");
    assert!(table.contains(words), "{table}");
    let rate = |name: &str| accepts[name].as_f64().expect("a number");
    let let_in_per_s = rate("let_in_per_s");
    // Who is served was let in, though not in the very same seconds.
    assert!(let_in_per_s > 0.75 * served_per_s, "{served_per_s}/s served: {accepts:#}");
    let share = let_in_per_s / (2.0 * MOST_PER_S * (1.0 - rate("refused")));
    assert!((0.9..1.1).contains(&share), "of those who come, {share}: {accepts:#}");
    guard.stop();
}

/// Pariag 4.2.1: Accept-1 pays for a call for events with each connection.
#[test]
fn who_accepts_one_at_a_time_is_told_to_accept_more() {
    if skip_without_root("who_accepts_one_at_a_time_is_told_to_accept_more") {
        return;
    }
    story("1", "more", "accept more at a time");
}

/// Pariag 4.1.2, and chapter 6: nobody is let in while all who waited are worked on.
#[test]
fn who_accepts_all_who_wait_is_told_to_accept_fewer() {
    if skip_without_root("who_accepts_all_who_wait_is_told_to_accept_fewer") {
        return;
    }
    story("inf", "fewer", "accept fewer at a time");
}
