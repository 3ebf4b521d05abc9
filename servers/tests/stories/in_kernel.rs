// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel answers what it understands wholly, and nothing else. Needs root.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tidegate_lab::skip_without_root;
use tidegate_servers::{ServerKind, Settings};

use crate::http::CLOSING;
use crate::running::{Running, Way, get, read_reply};

fn start(change: impl FnOnce(&mut Settings)) -> Running {
    Way { server: ServerKind::Tux, events: None }.start(|settings| {
        settings.in_kernel = true;
        change(settings);
    })
}

/// A connection on which the kernel answers.
fn settled(server: &Running) -> TcpStream {
    let mut stream = server.connect();
    let before = server.observer.statistics().kernel_replies;
    for _ in 0..100 {
        assert_eq!(get(&mut stream, "/").body, [b'~'; 1024]);
        // The server hands a connection over when it has answered, and counts a moment later.
        std::thread::sleep(Duration::from_millis(20));
        get_from_server(server);
        if server.observer.statistics().kernel_replies > before {
            return stream;
        }
    }
    panic!("the kernel never answered");
}

/// Wakes the server, so that it posts what it and the kernel have counted.
fn get_from_server(server: &Running) {
    assert!(server.ask(CLOSING).starts_with("HTTP/1.1 200"));
    std::thread::sleep(Duration::from_millis(5));
}

#[test]
fn the_kernel_answers_as_the_server_does() {
    if skip_without_root("the_kernel_answers_as_the_server_does") {
        return;
    }
    let server = start(|_| ());
    let mut stream = settled(&server);
    let before = server.observer.statistics();
    for _ in 0..300 {
        let reply = get(&mut stream, "/");
        assert_eq!((reply.status, reply.field("connection")), (200, Some("keep-alive")));
        assert_eq!(reply.body, [b'~'; 1024]);
    }
    get_from_server(&server);
    let statistics = server.stop();
    assert_eq!(statistics.kernel_replies, before.kernel_replies + 300);
    assert_eq!(statistics.replies, before.replies + 301);
    assert_eq!(statistics.accepted, before.accepted + 1);
}

#[test]
fn what_is_no_plain_request_for_the_page_is_the_servers() {
    if skip_without_root("what_is_no_plain_request_for_the_page_is_the_servers") {
        return;
    }
    let server = start(|_| ());
    for request in [
        "GET /bytes/5 HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\nGET /bytes/5 HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = settled(&server);
        let before = server.observer.statistics().kernel_replies;
        stream.write_all(request.as_bytes()).unwrap();
        for _ in 0..request.matches("HTTP/1").count() {
            let reply = read_reply(&mut stream, false);
            assert!(reply.status == 200 && [5, 1024].contains(&reply.body.len()), "{request}");
        }
        // Nor does the kernel answer on it any more: what follows may be a body.
        assert_eq!(get(&mut stream, "/").status, 200);
        get_from_server(&server);
        assert_eq!(server.observer.statistics().kernel_replies, before, "{request}");
    }
    server.stop();
}

#[test]
fn a_body_that_looks_like_a_request_is_not_answered() {
    if skip_without_root("a_body_that_looks_like_a_request_is_not_answered") {
        return;
    }
    let server = start(|_| ());
    let mut stream = settled(&server);
    let body = "GET / HTTP/1.1\r\n\r\n";
    write!(stream, "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    assert_eq!(read_reply(&mut stream, false).status, 200);
    stream.write_all(body.as_bytes()).unwrap();
    stream.write_all(b"GET /bytes/3 HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("HTTP/1.1 200").count(), 1, "{rest}");
    assert!(rest.ends_with("~~~"), "{rest}");
    server.stop();
}

#[test]
fn a_request_in_pieces_is_answered_once() {
    if skip_without_root("a_request_in_pieces_is_answered_once") {
        return;
    }
    let server = start(|_| ());
    let mut stream = settled(&server);
    for piece in ["GET / HT", "TP/1.1\r\nHost: a\r\n", "\r\n"] {
        stream.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(read_reply(&mut stream, false).status, 200);
    assert_eq!(get(&mut stream, "/bytes/7").body.len(), 7);
    server.stop();
}

#[test]
fn who_is_answered_by_the_kernel_is_not_idle() {
    if skip_without_root("who_is_answered_by_the_kernel_is_not_idle") {
        return;
    }
    let patience = Duration::from_millis(400);
    let server = start(|settings| settings.patience = patience);
    let mut stream = settled(&server);
    let started = Instant::now();
    while started.elapsed() < patience * 3 {
        assert_eq!(get(&mut stream, "/").status, 200);
        std::thread::sleep(patience / 20);
    }
    // And now it is.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    server.stop();
}

#[test]
fn many_connections_are_answered_at_once() {
    if skip_without_root("many_connections_are_answered_at_once") {
        return;
    }
    let server = start(|settings| settings.backlog = 1024);
    let mut streams: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    for _ in 0..50 {
        for stream in &mut streams {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        }
        for stream in &mut streams {
            assert_eq!(read_reply(stream, false).body, [b'~'; 1024]);
        }
    }
    drop(streams);
    get_from_server(&server);
    let statistics = server.stop();
    assert_eq!(statistics.replies, 10_001);
    assert!(statistics.kernel_replies > 5000, "{}", statistics.kernel_replies);
}
