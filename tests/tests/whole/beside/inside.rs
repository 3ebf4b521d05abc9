// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that accepts whoever is there, and answers one after the other: before `auto` has seen that it does not get
//! to them nobody is kept out, and from then on it answers those who are there.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::Duration;

use serde_json::Value;
use tidegate_crowd::{Class, Load, Outcome};
use tidegate_lab::Namespace;
use tidegate_tests::slow::send_from;
use tidegate_tests::waits::guard;
use tidegate_tests::{Guard, SERVER_V4, Stage, guard_of, skip_without_root};

/// A request takes so long, whatever else the processors have to do.
const TAKES: Duration = Duration::from_millis(20);
const MOST_PER_S: f64 = 50.0;
/// Clients wait for 2 s. Of twice as many as it can answer most have not been read for a second after 2 s; that is known
/// two or three seconds later, and what has been accepted by then takes it five more.
const PATIENCE: Duration = Duration::from_secs(2);

fn server() -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), 80)
}

fn answer(mut client: TcpStream) {
    sleep(TAKES);
    // Who has gone has gone.
    let _ = client.read(&mut [0; 1024]);
    let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

/// It goes on until the process ends.
fn serve(namespace: &Namespace) {
    let listener = namespace.run(|| TcpListener::bind(server()).expect("a free port"));
    let (inside, next) = channel();
    spawn(move || listener.incoming().flatten().try_for_each(|client| inside.send(client)));
    spawn(move || next.into_iter().for_each(answer));
}

fn crowd(stage: &Stage, duration: Duration) -> Outcome {
    let class = Class { timeout: PATIENCE, ..Class::default() };
    send_from(stage, class, Load::Poisson { per_s: 2.0 * MOST_PER_S }, duration)
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
    serve(&stage.server);
    let config = "[[listener]]\nport = 80\nhook = \"ip\"\nauto = { patience_s = 2 }\n";
    let guard = guard(&stage.server, config);
    assert_eq!(overload(&guard)["behind"], false);
    crowd(&stage, Duration::from_secs(12));
    let known = overload(&guard);
    assert_eq!(known["behind"], true, "{known:#}");
    assert!(known["waiting_limit"].is_u64(), "{known:#}");
    let came = crowd(&stage, Duration::from_secs(6));
    assert!(came.replies_per_s > MOST_PER_S / 2.0, "{came:#?}");
    guard.stop();
}
