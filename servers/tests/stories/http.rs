// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who asks properly is answered, and who does not is survived.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::running::{Way, get, read_reply};

pub const CLOSING: &[u8] = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
/// A piece of work that takes as long, or longer, and clients who ask for one each.
const PIECE_PATH: &str = "/work/100000";
const PIECE: Duration = Duration::from_millis(100);
const CLIENTS: u32 = 8;

pub fn pipelined_requests_are_all_answered(way: Way) {
    let server = way.start(|settings| settings.body_bytes = 10);
    let mut both = b"GET /a HTTP/1.1\r\n\r\n".repeat(9);
    both.extend_from_slice(CLOSING);
    let reply = server.ask(&both);
    assert_eq!(reply.matches("200 OK").count(), 10);
    let statistics = server.stop();
    assert_eq!((statistics.accepted, statistics.replies), (1, 10));
}

pub fn a_large_download_is_whole(way: Way) {
    let server = way.start(|_| ());
    let reply = server.ask(b"GET /bytes/5000000 HTTP/1.1\r\nConnection: close\r\n\r\n");
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.len(), 5_000_000);
}

pub fn a_long_reply_and_a_short_one_share_a_connection(way: Way) {
    let server = way.start(|settings| settings.body_bytes = 10);
    let mut stream = server.connect();
    assert_eq!(get(&mut stream, "/bytes/3000000").body.len(), 3_000_000);
    let reply = get(&mut stream, "/");
    assert_eq!((reply.status, reply.text()), (200, "~".repeat(10)));
    assert_eq!(reply.field("content-type"), Some("text/plain"));
    server.stop();
}

pub fn a_request_body_is_not_taken_for_a_request(way: Way) {
    let server = way.start(|_| ());
    let mut request = b"POST / HTTP/1.1\r\nContent-Length: 300000\r\n\r\n".to_vec();
    request.resize(request.len() + 300_000, b'x');
    request.extend_from_slice(CLOSING);
    assert_eq!(server.ask(&request).matches("200 OK").count(), 2);
    assert_eq!(server.stop().bad_requests, 0);
}

/// A server that closed over it would send a RST, and the client might lose what it was told.
pub fn a_body_that_comes_behind_the_last_reply_does_not_cost_it(way: Way) {
    let server = way.start(|settings| settings.body_bytes = 10);
    for head in ["POST / HTTP/1.0\r\n", "PUT / HTTP/1.1\r\nConnection: close\r\n"] {
        let mut stream = server.connect();
        stream.write_all(format!("{head}Content-Length: 3000\r\n\r\n").as_bytes()).unwrap();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(20));
            stream.write_all(&[b'x'; 1000]).unwrap();
        }
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("~~~~~~~~~~"), "{reply}");
    }
    let statistics = server.stop();
    assert_eq!((statistics.replies, statistics.timed_out), (2, 0), "{statistics}");
}

pub fn requests_behind_the_last_one_do_not_cost_its_reply(way: Way) {
    let server = way.start(|_| ());
    let mut requests = CLOSING.to_vec();
    requests.extend(b"GET / HTTP/1.1\r\n\r\n".repeat(20_000));
    assert_eq!(server.ask(&requests).matches("200 OK").count(), 1);
    assert_eq!(server.stop().replies, 1);
}

pub fn malformed_requests_get_400_and_the_server_goes_on(way: Way) {
    let server = way.start(|_| ());
    // More than is read before the refusal: the reply must survive the closing.
    let mut nonsense = b"\x16\x03\x01 nonsense\r\n\r\n".to_vec();
    nonsense.resize(200_000, 0);
    assert!(server.ask(&nonsense).starts_with("HTTP/1.1 400"));
    assert!(server.ask(CLOSING).starts_with("HTTP/1.1 200"));
    assert_eq!(server.stop().bad_requests, 1);
}

pub fn half_a_request_is_given_up_even_when_it_trickles(way: Way) {
    let server = way.start(|settings| settings.patience = Duration::from_millis(150));
    let mut stream = server.connect();
    let started = Instant::now();
    let mut reply = Vec::new();
    // Twice as long as it may take.
    let trickle = b"GET / HTTP/1.1\r\nEndless: ".iter().chain(std::iter::repeat_n(&b'a', 200));
    let sent = trickle.take_while(|byte| {
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(&[**byte]).is_ok()
    });
    assert!(sent.count() < 200, "it is given up before all has come");
    let _ = stream.read_to_end(&mut reply);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(server.stop().timed_out, 1);
}

/// What comes without a pause leaves no moment in which nothing is there to be read.
pub fn who_sends_without_end_is_given_up(way: Way) {
    let server = way.start(|settings| settings.patience = Duration::from_millis(150));
    let mut stream = server.connect();
    stream.write_all(b"PUT / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").unwrap();
    let started = Instant::now();
    while stream.write_all(&[b'x'; 10_000]).is_ok() {
        assert!(started.elapsed() < Duration::from_secs(2), "it is heard for ever");
    }
    assert_eq!(server.stop().timed_out, 1);
}

/// All of them keep the server busy for longer than it waits for any.
pub fn who_was_answered_a_moment_ago_is_not_idle(way: Way) {
    let server = way.start(|settings| settings.patience = PIECE * CLIENTS / 2);
    let connected = Barrier::new(CLIENTS as usize);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut stream = server.connect();
                connected.wait();
                for path in [PIECE_PATH, "/"] {
                    assert_eq!(get(&mut stream, path).status, 200, "{path}");
                }
            });
        }
    });
    let statistics = server.stop();
    assert_eq!(statistics.replies, u64::from(2 * CLIENTS), "{statistics}");
    assert_eq!(statistics.timed_out, 0, "{statistics}");
}

pub fn whoever_stops_it_does_not_wait_for_all_its_work(way: Way) {
    // With one thread, those who wait for it are the same for every server.
    let server = way.start(|settings| settings.threads = way.threads(1));
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect()).collect();
    let (sender, answered) = channel();
    for mut stream in streams {
        let sender = sender.clone();
        let request = format!("GET {PIECE_PATH} HTTP/1.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        std::thread::spawn(move || {
            let mut reply = String::new();
            // The others are reset.
            if stream.read_to_string(&mut reply).is_ok() && !reply.is_empty() {
                sender.send(reply).unwrap();
            }
        });
    }
    // The first may have been all that had come when the server looked.
    for _ in 0..2 {
        answered.recv_timeout(Duration::from_secs(10)).unwrap();
    }
    let statistics = server.stop();
    assert!(statistics.replies < u64::from(CLIENTS), "{statistics}");
}

pub fn resets_are_counted_as_dead_and_harm_nobody(way: Way) {
    let server = way.start(|settings| settings.cost_us = 2_000);
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

pub fn the_cost_is_paid_for_every_reply(way: Way) {
    let steps = |cost_us: u64, requests: u32| {
        let server = way.start(|settings| settings.cost_us = cost_us);
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

pub fn http_1_0_closes_unless_asked_to_stay(way: Way) {
    let server = way.start(|settings| settings.body_bytes = 10);
    let reply = server.ask(b"GET / HTTP/1.0\r\n\r\n");
    assert!(reply.contains("Connection: close\r\n") && reply.ends_with("~~~~~~~~~~"), "{reply}");
    let mut stream = server.connect();
    for _ in 0..3 {
        stream.write_all(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let reply = read_reply(&mut stream, false);
        assert_eq!((reply.status, reply.field("connection")), (200, Some("keep-alive")));
    }
    assert_eq!(server.stop().replies, 4);
}

const CLIENT_CLOSE: &[u8] = b"CLIENT_CLOSE / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Faber, section 4.2: the server does not reply. Were it to close before the client, it would hold
/// TIME-WAIT.
pub fn a_client_that_says_that_it_closes_gets_no_word_and_closes_first(way: Way) {
    let server = way.start(|_| ());
    let mut stream = server.connect();
    assert_eq!(get(&mut stream, "/").status, 200);
    stream.write_all(CLIENT_CLOSE).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let silence = stream.read(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock, "neither a word nor an end");
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let statistics = server.stop();
    assert_eq!((statistics.replies, statistics.bad_requests), (1, 0), "{statistics}");
    assert_eq!((statistics.dead_connections, statistics.timed_out), (0, 0), "{statistics}");
}

pub fn it_may_say_so_with_its_last_request_and_its_end(way: Way) {
    let server = way.start(|settings| settings.body_bytes = 10);
    let mut stream = server.connect();
    stream.write_all(&[b"GET / HTTP/1.1\r\n\r\n", CLIENT_CLOSE].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(reply.matches("HTTP/1.1").count(), 1, "{reply}");
    let statistics = server.stop();
    assert_eq!((statistics.replies, statistics.bad_requests), (1, 0), "{statistics}");
}

pub fn a_client_that_only_listens_gets_all(way: Way) {
    let server = way.start(|_| ());
    let mut stream = server.connect();
    stream.write_all(b"GET /bytes/3000000 HTTP/1.1\r\n\r\nGET /bytes/5 HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_reply(&mut stream, false).body.len(), 3_000_000);
    assert_eq!(read_reply(&mut stream, false).body.len(), 5);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(server.stop().replies, 2);
}

/// Nobody looks after a client that has closed its side and does not read until it does:
/// io_uring(7) would have it tried without end.
pub fn who_only_listens_and_does_not_read_is_waited_for(way: Way) {
    const BODY_BYTES: usize = 16 << 20;
    let server = way.start(|settings| settings.body_bytes = BODY_BYTES as u64);
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply.len() > BODY_BYTES && reply.ends_with(b"~~~~"), "{} bytes", reply.len());
    let statistics = server.stop();
    // A turn for each bit that the client makes room for, and not one every few microseconds.
    assert!(statistics.work_items < 5_000, "{statistics}");
}

pub fn half_a_request_gets_408(way: Way) {
    let server = way.start(|settings| settings.patience = Duration::from_millis(100));
    for half in [&b"GET / HT"[..], b"POST / HTTP/1.1\r\nContent-Length: 9"] {
        assert!(server.ask(half).starts_with("HTTP/1.1 408 "));
    }
    let statistics = server.stop();
    assert_eq!((statistics.timed_out, statistics.accepted), (2, 2));
}

pub fn who_says_nothing_is_closed_without_a_word(way: Way) {
    let server = way.start(|settings| settings.patience = Duration::from_millis(100));
    assert_eq!(server.ask(b""), "");
    let statistics = server.stop();
    assert_eq!((statistics.timed_out, statistics.dead_connections), (0, 1));
}

/// RFC 9112, 2.2. What comes behind a body may come in two pieces, too.
pub fn an_empty_line_behind_a_body_begins_no_request(way: Way) {
    let server = way.start(|settings| settings.patience = Duration::from_millis(200));
    let request = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    for pieces in [&["\r\n"][..], &["\r", "\n"], &["\r"], &["\r\n\r\n"]] {
        let mut stream = server.connect();
        stream.write_all(format!("{request}{}", pieces[0]).as_bytes()).unwrap();
        assert_eq!(read_reply(&mut stream, false).status, 200, "{pieces:?}");
        for piece in &pieces[1..] {
            stream.write_all(piece.as_bytes()).unwrap();
        }
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "{pieces:?}");
    }
    // Nor is it in the way of one.
    let both = [request.as_bytes(), b"\r\n", CLOSING].concat();
    assert_eq!(server.ask(&both).matches("200 OK").count(), 2);
    let statistics = server.stop();
    assert_eq!((statistics.replies, statistics.timed_out), (6, 0), "{statistics}");
    assert_eq!(statistics.bad_requests, 0, "{statistics}");
}

pub fn who_sends_empty_lines_is_idle(way: Way) {
    let server = way.start(|settings| settings.patience = Duration::from_millis(150));
    // Halves, of which neither begins anything, and more than can be read off.
    for (lines, pause_ms) in [([&b"\r"[..], b"\n"], 5), ([&[b'\n'; 10_000], b"\r\n"], 0)] {
        let mut stream = server.connect();
        let started = Instant::now();
        while lines.iter().all(|line| stream.write_all(line).is_ok()) {
            assert!(started.elapsed() < Duration::from_secs(2), "it is heard for ever");
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
    }
    assert_eq!(server.stop().timed_out, 0);
}

pub fn a_request_may_come_in_pieces(way: Way) {
    let server = way.start(|settings| settings.body_bytes = 7);
    let mut stream = server.connect();
    for byte in b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(read_reply(&mut stream, false).body.len(), 7);
    server.stop();
}

pub fn what_is_not_served_is_refused_by_name(way: Way) {
    let server = way.start(|_| ());
    let endless = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(20_000));
    let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "A: a\r\n".repeat(100));
    for (request, status) in [
        ("GET /\r\n\r\n", "400"),
        ("GET /bytes/x HTTP/1.1\r\n\r\n", "400"),
        ("GET /work/9999999 HTTP/1.1\r\n\r\n", "400"),
        ("BREW / HTTP/1.1\r\n\r\n", "405"),
        (&endless, "431"),
        (&fields, "431"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "501"),
    ] {
        let reply = server.ask(request.as_bytes());
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40}: {reply:.40}");
    }
    assert_eq!(server.stop().bad_requests, 7);
}

pub fn a_page_is_computed_for_each_request(way: Way) {
    let server = way.start(|_| ());
    let mut stream = server.connect();
    let (first, second) = (get(&mut stream, "/work/50"), get(&mut stream, "/work/50"));
    assert_eq!((first.status, first.body.len()), (200, 17));
    assert_ne!(first.body, second.body);
    drop(stream);
    assert!(server.stop().work_steps > 0);
}
