// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client that comes again from the same port, while the server still holds the last
//! connection in TIME-WAIT, is judged as any other.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tidegate_tests::waits::settled;
use tidegate_tests::{CLIENT_V4, Counted, Guard, SERVER_V4, Stage, skip_without_root};

const PORT: u16 = 80;
const CLIENT_PORT: u16 = 5000;
const BACKLOG: i32 = 1;

fn server() -> SocketAddr {
    format!("{SERVER_V4}:{PORT}").parse().expect("an address")
}

/// Connects from the one port of this client.
fn connect_again(stage: &Stage, patience: Duration) -> Result<TcpStream, ErrorKind> {
    stage.client.run(move || {
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        socket.set_reuse_address(true).expect("an option");
        let own: SocketAddr = format!("{CLIENT_V4}:{CLIENT_PORT}").parse().expect("an address");
        socket.bind(&own.into()).expect("a port that is free here");
        socket.connect_timeout(&server().into(), patience).map_err(|e| e.kind())?;
        Ok(socket.into())
    })
}

/// A listener whose queue is full, and which holds the client's last connection in
/// TIME-WAIT, for it closed first.
fn listener_after_a_visit(stage: &Stage) -> (TcpListener, Vec<TcpStream>) {
    let listener = stage.server.run(|| {
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        let any: SocketAddr = format!("0.0.0.0:{PORT}").parse().expect("an address");
        socket.set_reuse_address(true).expect("an option");
        socket.bind(&any.into()).expect("a free port");
        socket.listen(BACKLOG).expect("a listener");
        TcpListener::from(socket)
    });
    let mut visit = connect_again(stage, Duration::from_secs(1)).expect("room");
    let (mut accepted, _) = listener.accept().expect("a connection");
    accepted.write_all(b"bye").expect("a client that reads");
    drop(accepted);
    visit.read_to_end(&mut Vec::new()).expect("the server closes first");
    drop(visit);
    settled("TIME-WAIT at the server", || {
        let held = stage.server.output(stage.server.command("ss -Htn state time-wait"));
        held.expect("ss").contains(&CLIENT_PORT.to_string())
    });

    let waiting = (0..=BACKLOG)
        .map(|_| stage.client.run(|| TcpStream::connect(server())).expect("a place in the queue"))
        .collect();
    // What was remembered of the listener is forgotten: the look-up meets TIME-WAIT.
    sleep(Duration::from_millis(50));
    (listener, waiting)
}

#[test]
fn it_is_refused_at_once_where_there_is_no_room() {
    if skip_without_root("it_is_refused_at_once_where_there_is_no_room") {
        return;
    }
    for hook in ["ip", "driver"] {
        let stage = Stage::new("time-wait-rst");
        stage.receive_offload();
        let guard = Guard::on_port(&stage.server, PORT, "rst-syn", hook);
        let _full = listener_after_a_visit(&stage);
        let answer = connect_again(&stage, Duration::from_millis(700)).map(drop);
        assert_eq!(answer, Err(ErrorKind::ConnectionRefused), "at the {hook} hook");
        assert_eq!(Counted::of(&stage.server).packets("ListenQFullAtSyn", "reset"), 1);
        guard.stop();
    }
}

#[test]
fn the_tcp_hook_leaves_it_to_the_ip_entry() {
    if skip_without_root("the_tcp_hook_leaves_it_to_the_ip_entry") {
        return;
    }
    let stage = Stage::new("time-wait-tcp");
    let guard = Guard::on_port(&stage.server, PORT, "abort early-syn-drop", "tcp");
    let _full = listener_after_a_visit(&stage);
    let answer = connect_again(&stage, Duration::from_millis(700)).map(drop);
    assert_eq!(answer, Err(ErrorKind::TimedOut));
    assert_eq!(Counted::of(&stage.server).packets("ListenQFullAtSyn", "drop"), 1);
    guard.stop();
}

/// Its ACK would go to TIME-WAIT and not to the listener: a promise that could not be kept.
#[test]
fn it_gets_no_cookie_and_is_served_once_there_is_room() {
    if skip_without_root("it_gets_no_cookie_and_is_served_once_there_is_room") {
        return;
    }
    let stage = Stage::new("time-wait-cookie");
    let guard = Guard::on_port(&stage.server, PORT, "no-syn-drop", "ip");
    let (listener, _waiting) = listener_after_a_visit(&stage);
    let accepting = stage
        .server
        .thread(move || {
            sleep(Duration::from_millis(300));
            for stream in listener.incoming() {
                let _ = stream.expect("a connection").write_all(b"served");
            }
        })
        .expect("a thread");
    let begun = Instant::now();
    let mut stream = connect_again(&stage, Duration::from_secs(5)).expect("room after 300 ms");
    let mut answer = [0; 6];
    stream.set_read_timeout(Some(Duration::from_secs(2))).expect("an option");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"served");
    // The first SYN was dropped, the second came a second later.
    assert!(begun.elapsed() > Duration::from_millis(300));
    assert_eq!(Counted::of(&stage.server).packets("NoCookie", "pass"), 1);
    guard.stop();
    drop(accepting);
}
