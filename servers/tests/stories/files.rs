// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files arrive whole, and nothing outside the root arrives at all.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::running::{Reply, Running, Way, get, read_reply};
use crate::site::Site;

/// Contents in which a byte out of place is noticed.
fn contents(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

const SIZES: [usize; 7] = [0, 1, 1024, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 1024 * 1024 + 1];

pub fn files_of_every_size_are_whole_on_one_connection(way: Way) {
    let site = Site::new();
    for size in SIZES {
        site.write(&size.to_string(), &contents(size));
    }
    let server = site.serve(way);
    let mut stream = server.connect();
    // Twice: the second time from what is held.
    for size in SIZES.into_iter().chain(SIZES) {
        let reply = get(&mut stream, &format!("/{size}"));
        assert_eq!(reply.status, 200);
        assert_eq!(reply.field("content-length"), Some(size.to_string().as_str()));
        assert!(reply.body == contents(size), "{size} bytes");
    }
    drop(stream);
    let statistics = server.stop();
    assert_eq!((statistics.accepted, statistics.replies), (1, 2 * SIZES.len() as u64));
}

pub fn head_tells_the_length_and_sends_no_body(way: Way) {
    let site = Site::new();
    site.write("large", &contents(100_000));
    let server = site.serve(way);
    let mut stream = server.connect();
    for (path, length) in [("/large", "100000"), ("/page.html", "11")] {
        write!(stream, "HEAD {path} HTTP/1.1\r\n\r\n").unwrap();
        let head = read_reply(&mut stream, true);
        assert_eq!((head.status, head.field("content-length")), (200, Some(length)));
    }
    // Were there a body, it would be in the way now.
    assert_eq!(get(&mut stream, "/page.html").body, b"<p>page</p>");
    server.stop();
}

pub fn who_has_the_file_is_told_so(way: Way) {
    let site = Site::new();
    site.write("large", &contents(100_000));
    let server = site.serve(way);
    let mut stream = server.connect();
    for path in ["/page.html", "/large"] {
        let first = get(&mut stream, path);
        let (tag, date) = (first.field("etag").unwrap(), first.field("last-modified").unwrap());
        for condition in [format!("If-None-Match: {tag}"), format!("If-Modified-Since: {date}")] {
            write!(stream, "GET {path} HTTP/1.1\r\n{condition}\r\n\r\n").unwrap();
            // No body follows a 304, whatever is in its head (RFC 9112, 6.3).
            let second = read_reply(&mut stream, true);
            assert_eq!((second.status, second.field("etag")), (304, Some(tag)), "{condition}");
        }
        write!(stream, "GET {path} HTTP/1.1\r\nIf-None-Match: \"other\"\r\n\r\n").unwrap();
        assert_eq!(read_reply(&mut stream, false).status, 200);
    }
    let statistics = server.stop();
    assert_eq!((statistics.replies, statistics.not_modified), (8, 4));
}

pub fn directories_and_links_inside_are_followed(way: Way) {
    let site = Site::new();
    let server = site.serve(way);
    let mut stream = server.connect();
    for (path, body) in [
        ("/deep", "<p>index</p>"),
        ("/deep/", "<p>index</p>"),
        ("/in-deep/?query", "<p>index</p>"),
        ("/in", "<p>page</p>"),
        ("/deep/deeper/a%20b.txt", "a b"),
        ("/deep/../page.html", "<p>page</p>"),
        ("http://any.host/page.html", "<p>page</p>"),
    ] {
        let reply = get(&mut stream, path);
        assert_eq!((reply.status, reply.text()), (200, body.to_owned()), "{path}");
    }
    assert_eq!(get(&mut stream, "/deep").field("content-type"), Some("text/html"));
    assert_eq!(get(&mut stream, "/in").field("content-type"), Some("application/octet-stream"));
    server.stop();
}

pub fn what_is_outside_is_not_found_and_the_connection_goes_on(way: Way) {
    let site = Site::new();
    let server = site.serve(way);
    let mut stream = server.connect();
    let attempts = [
        "/../secret",
        "/../../../../../../etc/passwd",
        "/%2e%2e/secret",
        "/%2e%2e%2fsecret",
        "/..%2fsecret",
        "/deep/../../secret",
        "/deep/deeper/../../../secret",
        "//../secret",
        "/%2fetc/passwd",
        "//etc/passwd",
        "/../root/page.html",
        "/../roots/secret",
        "/out",
        "/up/secret",
        "/slash/etc/passwd",
        "/around",
        "/deep/out",
        "/absolute",
        "/page.html%00",
        "/proc/self/root",
        "http://h/../secret",
        "/nothing",
        "/bytes/10",
    ];
    for path in attempts {
        let reply = get(&mut stream, path);
        assert_eq!((reply.status, reply.body.len()), (404, 0), "{path}");
    }
    assert_eq!(get(&mut stream, "/page.html").status, 200);
    drop(stream);
    let statistics = server.stop();
    assert_eq!((statistics.accepted, statistics.replies), (1, 1));
    assert_eq!(statistics.not_found, attempts.len() as u64);
    assert_eq!(statistics.dead_connections, 0);
}

pub fn pipelined_requests_are_answered_in_order(way: Way) {
    let site = Site::new();
    site.write("large", &contents(300_000));
    let server = site.serve(way);
    let mut stream = server.connect();
    let paths = ["/page.html", "/large", "/none", "/in", "/large", "/deep/deeper/a%20b.txt"];
    let requests: String =
        paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\n\r\n")).collect();
    stream.write_all(requests.as_bytes()).unwrap();
    let replies: Vec<Reply> = paths.iter().map(|_| read_reply(&mut stream, false)).collect();
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 200, 404, 200, 200, 200]);
    assert!(replies[1].body == contents(300_000) && replies[4].body == contents(300_000));
    assert_eq!(replies[5].body, b"a b");
    server.stop();
}

/// Asks for a file from a client with little room: the server cannot send it all at once.
fn ask_slowly(server: &Running, path: &str) -> TcpStream {
    let mut stream = server.connect();
    SockRef::from(&stream).set_recv_buffer_size(256 * 1024).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_reply(&mut stream, true).status, 200);
    stream
}

pub fn slow_readers_hold_up_nobody_and_get_all(way: Way) {
    let site = Site::new();
    let large = contents(16 << 20);
    site.write("large", &large);
    let server = site.serve(way);
    let mut readers = [ask_slowly(&server, "/large"), ask_slowly(&server, "/large")];
    assert_eq!(get(&mut server.connect(), "/page.html").status, 200);
    let mut received = [Vec::new(), Vec::new()];
    let mut sip = vec![0; 100_000];
    // In turn, so that each stands still while the other goes on.
    while received.iter().any(|bytes| bytes.len() < large.len()) {
        for (stream, bytes) in readers.iter_mut().zip(&mut received) {
            if bytes.len() < large.len() {
                let count = stream.read(&mut sip).unwrap();
                assert!(count > 0, "ended after {} bytes", bytes.len());
                bytes.extend_from_slice(&sip[..count]);
            }
        }
    }
    assert!(received.iter().all(|bytes| *bytes == large));
    server.stop();
}

pub fn a_file_that_shrinks_ends_its_connection_early(way: Way) {
    let site = Site::new();
    site.write("large", &contents(16 << 20));
    let server = site.serve(way);
    let mut stream = ask_slowly(&server, "/large");
    // More than fits into the buffers between server and client is left.
    let file = fs::File::options().write(true).open(site.root().join("large")).unwrap();
    file.set_len(12 << 20).unwrap();
    let (mut received, started) = (Vec::new(), Instant::now());
    // A reset is as good: the client sees that this was not all.
    let ended = stream.read_to_end(&mut received).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "it is not left waiting");
    assert!(received.len() <= 12 << 20);
    assert_eq!(get(&mut server.connect(), "/page.html").status, 200);
    assert_eq!(server.stop().replies, 1);
}

pub fn nothing_is_written_to_files(way: Way) {
    let site = Site::new();
    let server = site.serve(way);
    let reply = server.ask(b"PUT /page.html HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(reply.starts_with("HTTP/1.1 405 "), "{reply}");
    assert_eq!(fs::read(site.root().join("page.html")).unwrap(), b"<p>page</p>");
    assert_eq!(server.stop().bad_requests, 1);
}
