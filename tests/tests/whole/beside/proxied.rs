// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An application behind a proxy on the same host: the crowd's queue is the application's, on loopback, and a guard there
//! has the proxy tell whom it has no room for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{sleep, spawn};
use std::time::Duration;

use tidegate_crowd::{Class, Driver, Load, Outcome, Plan, run};
use tidegate_lab::{Namespace, skip_without};
use tidegate_tests::waits::guard;
use tidegate_tests::{CLIENT_V4, Nginx, SERVER_V4, Stage};

/// A request takes so long, whatever else the processors have to do.
const TAKES: Duration = Duration::from_millis(20);
const MOST_PER_S: f64 = 50.0;
/// Clients wait for 2 s: what the application answers meanwhile is less than its listen queue holds.
const PATIENCE: Duration = Duration::from_secs(2);
const APPLICATION: ([u8; 4], u16) = ([127, 0, 0, 1], 8000);

fn answer(mut client: TcpStream) {
    sleep(TAKES);
    // Who has gone has gone.
    let _ = client.read(&mut [0; 1024]);
    let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

/// Accepts one, answers it, and goes on until the process ends: a sync worker.
fn serve(namespace: &Namespace) {
    let bind = || TcpListener::bind(SocketAddr::from(APPLICATION)).expect("a free port");
    let listener = namespace.run(bind);
    spawn(move || listener.incoming().flatten().for_each(answer));
}

/// Twice as many as the application can answer, at the proxy; what counts is what comes of those after the first six
/// seconds.
fn crowd(client: &Namespace) -> Outcome {
    let plan = Plan {
        driver: Driver::Raw,
        targets: vec![format!("{SERVER_V4}:80").parse().expect("an address")],
        sources: vec![format!("{CLIENT_V4}/32").parse().expect("an address")],
        load: Load::Poisson { per_s: 2.0 * MOST_PER_S },
        warm_up: Duration::from_secs(6),
        duration: Duration::from_secs(3),
        classes: vec![Class { timeout: PATIENCE, ..Class::default() }],
        ..Plan::default()
    };
    client.run(move || run(&plan).expect("a crowd"))
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
    serve(&stage.server);
    let _proxy = Nginx::before(&stage.server, "80 backlog=1024", APPLICATION.into());

    let unguarded = crowd(&stage.client);
    assert!(unguarded.replies_per_s < MOST_PER_S / 10.0, "{unguarded:#?}");

    let port = APPLICATION.1;
    let auto = "auto = { patience_s = 2 }";
    let guard = guard(&stage.server, &format!("[[listener]]\nport = {port}\n{auto}\n"));
    let guarded = crowd(&stage.client);
    assert!(guarded.replies_per_s > MOST_PER_S / 2.0, "{guarded:#?}");
    guard.stop();
}
