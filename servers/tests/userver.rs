// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server answers who asks properly, and survives who does not.

mod running;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use running::{Running, get};
use socket2::SockRef;
use tidegate_servers::{Settings, Userver};

const CLOSING: &[u8] = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n";

#[test]
fn pipelined_requests_are_all_answered() {
    let server = Running::start(|settings| settings.body_bytes = 10);
    let mut both = b"GET /a HTTP/1.1\r\n\r\n".repeat(9);
    both.extend_from_slice(CLOSING);
    let reply = server.ask(&both);
    assert_eq!(reply.matches("200 OK").count(), 10);
    let statistics = server.stop();
    assert_eq!((statistics.accepted, statistics.replies), (1, 10));
}

#[test]
fn a_large_download_is_whole() {
    let server = Running::start(|_| ());
    let reply = server.ask(b"GET /bytes/5000000 HTTP/1.1\r\nConnection: close\r\n\r\n");
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.len(), 5_000_000);
}

#[test]
fn a_long_reply_and_a_short_one_share_a_connection() {
    let server = Running::start(|settings| settings.body_bytes = 10);
    let mut stream = server.connect();
    assert_eq!(get(&mut stream, "/bytes/3000000").body.len(), 3_000_000);
    let reply = get(&mut stream, "/");
    assert_eq!((reply.status, reply.text()), (200, "~".repeat(10)));
    assert_eq!(reply.field("content-type"), Some("text/plain"));
    server.stop();
}

#[test]
fn a_request_body_is_not_taken_for_a_request() {
    let server = Running::start(|_| ());
    let mut request = b"POST / HTTP/1.1\r\nContent-Length: 300000\r\n\r\n".to_vec();
    request.resize(request.len() + 300_000, b'x');
    request.extend_from_slice(CLOSING);
    assert_eq!(server.ask(&request).matches("200 OK").count(), 2);
    assert_eq!(server.stop().bad_requests, 0);
}

#[test]
fn malformed_requests_get_400_and_the_server_goes_on() {
    let server = Running::start(|_| ());
    // More than is read before the refusal: the reply must survive the closing.
    let mut nonsense = b"\x16\x03\x01 nonsense\r\n\r\n".to_vec();
    nonsense.resize(200_000, 0);
    assert!(server.ask(&nonsense).starts_with("HTTP/1.1 400"));
    assert!(server.ask(CLOSING).starts_with("HTTP/1.1 200"));
    assert_eq!(server.stop().bad_requests, 1);
}

#[test]
fn half_a_request_is_given_up_even_when_it_trickles() {
    let server = Running::start(|settings| settings.patience = Duration::from_millis(150));
    let mut stream = server.connect();
    let started = Instant::now();
    let mut reply = Vec::new();
    for byte in b"GET / HTTP/1.1\r\nEndless: aaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = stream.read_to_end(&mut reply);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(server.stop().timed_out, 1);
}

#[test]
fn resets_are_counted_as_dead_and_harm_nobody() {
    let server = Running::start(|settings| settings.cost_us = 2_000);
    for request in [&b""[..], b"GET /", CLOSING] {
        let mut stream = server.connect();
        stream.write_all(request).unwrap();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        // Accepted first: a reset in the listen queue would be a different story.
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(server.ask(CLOSING).starts_with("HTTP/1.1 200"));
    let statistics = server.stop();
    assert_eq!(statistics.accepted, 4);
    assert!(statistics.dead_connections >= 2, "{statistics:?}");
}

#[test]
fn the_cost_is_paid_for_every_reply() {
    let steps = |cost_us: u64, requests: u32| {
        let server = Running::start(|settings| settings.cost_us = cost_us);
        for _ in 0..requests {
            server.ask(CLOSING);
        }
        server.stop().work_steps
    };
    let (seven_cheap, two_dear) = (steps(10, 7), steps(100, 2));
    assert!(seven_cheap > 0);
    assert_eq!(two_dear * 7 * 10, seven_cheap * 2 * 100);
    assert_eq!(steps(0, 3), 0);
}

#[test]
fn both_families_share_a_port_and_a_taken_one_is_named() {
    let server = Running::start(|_| ());
    let port = server.address.port();
    let taken = Userver::bind(Settings { addresses: vec![server.address], ..Settings::default() });
    assert!(taken.unwrap_err().to_string().contains(&port.to_string()));
    server.stop();
    let both = Userver::bind(Settings {
        addresses: vec![
            SocketAddr::from(([0, 0, 0, 0], port)),
            SocketAddr::from(([0_u16; 8], port)),
        ],
        ..Settings::default()
    });
    assert_eq!(both.unwrap().addresses().len(), 2);
}
