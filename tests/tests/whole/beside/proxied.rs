// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An application behind a proxy on the same host: the crowd's queue is the application's, on loopback, and a guard there
//! has the proxy tell whom it has no room for.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_crowd::{Class, Load, Outcome};
use tidegate_lab::skip_without;
use tidegate_tests::slow::{LONG_BACKLOG, MOST_PER_S, Slow, send_from};
use tidegate_tests::waits::guard;
use tidegate_tests::{Nginx, Stage};

const APPLICATION: ([u8; 4], u16) = ([127, 0, 0, 1], 8000);
/// Clients wait for 2 s: the application answers fewer meanwhile than its listen queue holds.
const PATIENCE: Duration = Duration::from_secs(2);
const LASTS: Duration = Duration::from_secs(10);

/// Twice as many as the application can answer, at the proxy.
fn crowd(stage: &Stage) -> Outcome {
    let class = Class { timeout: PATIENCE, ..Class::default() };
    send_from(stage, class, Load::Poisson { per_s: 2.0 * MOST_PER_S }, LASTS)
}

#[test]
fn an_application_behind_a_proxy_answers_those_who_are_there() {
    if skip_without(
        "an_application_behind_a_proxy_answers_those_who_are_there",
        &[("nginx", "nginx-light")],
    ) {
        return;
    }
    let stage = Stage::new("proxied");
    let _application = Slow::start_at(&stage, SocketAddr::from(APPLICATION), LONG_BACKLOG);
    let _proxy = Nginx::before(&stage.server, "80 backlog=1024", APPLICATION.into());

    let port = APPLICATION.1;
    let auto = "auto = { patience_s = 2 }";
    let guard = guard(&stage.server, &format!("[[listener]]\nport = {port}\n{auto}\n"));
    let guarded = crowd(&stage);
    guard.stop();
    let unguarded = crowd(&stage);
    // Without a guard those are answered who came in the first two seconds, which is two fifths of what it can do.
    let most = MOST_PER_S * LASTS.as_secs_f64();
    assert!(guarded.replies as f64 > 0.6 * most, "{guarded:#?}");
    assert!((unguarded.replies as f64) < 0.6 * most, "{unguarded:#?}");
}
