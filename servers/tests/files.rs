// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files arrive whole, and nothing outside the root arrives at all.

mod running;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use running::{Reply, Running, get, read_reply};
use socket2::SockRef;
use tempfile::TempDir;

/// A directory with a root in it, and a secret beside the root.
struct Site {
    directory: TempDir,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("root/deep/deeper")).unwrap();
        fs::create_dir(directory.path().join("roots")).unwrap();
        let site = Self { directory };
        site.write("../secret", b"secret");
        site.write("../roots/secret", b"secret");
        site.write("page.html", b"<p>page</p>");
        site.write("deep/index.html", b"<p>index</p>");
        site.write("deep/deeper/a b.txt", b"a b");
        let link = |to: &str, name: &str| symlink(to, site.root().join(name)).unwrap();
        link("../secret", "out");
        link("..", "up");
        link("/", "slash");
        link("deep/../../secret", "around");
        link("page.html", "in");
        link("deep", "in-deep");
        symlink("../../secret", site.root().join("deep/out")).unwrap();
        symlink(site.directory.path().join("secret"), site.root().join("absolute")).unwrap();
        site
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn write(&self, name: &str, contents: &[u8]) {
        fs::write(self.root().join(name), contents).unwrap();
    }

    fn serve(&self) -> Running {
        Running::start(|settings| settings.root = Some(self.root()))
    }
}

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

#[test]
fn files_of_every_size_are_whole_on_one_connection() {
    let site = Site::new();
    for size in SIZES {
        site.write(&size.to_string(), &contents(size));
    }
    let server = site.serve();
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

#[test]
fn head_tells_the_length_and_sends_no_body() {
    let site = Site::new();
    site.write("large", &contents(100_000));
    let server = site.serve();
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

#[test]
fn who_has_the_file_is_told_so() {
    let site = Site::new();
    site.write("large", &contents(100_000));
    let server = site.serve();
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

#[test]
fn directories_and_links_inside_are_followed() {
    let site = Site::new();
    let server = site.serve();
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

#[test]
fn what_is_outside_is_not_found_and_the_connection_goes_on() {
    let site = Site::new();
    let server = site.serve();
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

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Site::new();
    site.write("large", &contents(300_000));
    let server = site.serve();
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

#[test]
fn slow_readers_hold_up_nobody_and_get_all() {
    let site = Site::new();
    let large = contents(16 << 20);
    site.write("large", &large);
    let server = site.serve();
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

#[test]
fn a_file_that_shrinks_ends_its_connection_early() {
    let site = Site::new();
    site.write("large", &contents(16 << 20));
    let server = site.serve();
    let mut stream = ask_slowly(&server, "/large");
    // More than fits into the buffers between server and client is left.
    let file = fs::File::options().write(true).open(site.root().join("large")).unwrap();
    file.set_len(12 << 20).unwrap();
    let mut received = Vec::new();
    // A reset is as good: the client sees that this was not all.
    let _ = stream.read_to_end(&mut received);
    assert!(received.len() <= 12 << 20);
    assert_eq!(get(&mut server.connect(), "/page.html").status, 200);
    assert_eq!(server.stop().replies, 1);
}

#[test]
fn nothing_is_written_to_files() {
    let site = Site::new();
    let server = site.serve();
    let reply = server.ask(b"PUT /page.html HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(reply.starts_with("HTTP/1.1 405 "), "{reply}");
    assert_eq!(fs::read(site.root().join("page.html")).unwrap(), b"<p>page</p>");
    assert_eq!(server.stop().bad_requests, 1);
}

#[test]
fn a_root_that_cannot_be_served_is_named() {
    let site = Site::new();
    for name in ["nowhere", "page.html"] {
        let root = site.root().join(name);
        let settings = tidegate_servers::Settings {
            addresses: vec![([127, 0, 0, 1], 0).into()],
            root: Some(root.clone()),
            ..Default::default()
        };
        let message = tidegate_servers::Userver::bind(settings).unwrap_err().to_string();
        assert!(message.contains(root.to_str().unwrap()), "{message}");
        assert_eq!(message.lines().count(), 1);
    }
}

/// One site and one server for all random paths; they end with the test.
static RANDOM: LazyLock<(Site, Running)> = LazyLock::new(|| {
    let site = Site::new();
    let server = site.serve();
    (site, server)
});

fn segment() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "..",
        "..",
        "%2e%2e",
        ".%2E",
        ".",
        "",
        "%2f",
        "..%2f",
        "%5c..",
        "%00",
        "...",
        "root",
        "roots",
        "secret",
        "etc",
        "passwd",
        "deep",
        "deeper",
        "a%20b.txt",
        "page.html",
        "in",
        "in-deep",
        "out",
        "up",
        "slash",
        "around",
        "absolute",
        "index.html",
        "proc",
        "self",
    ]);
    prop_oneof![
        9 => known.prop_map(str::to_owned),
        1 => "[!-~&&[^ ?#]]{0,8}",
    ]
}

/// What a path may give: the contents of the file that it comes to, if that is below the root.
fn allowed(root: &Path, path: &str) -> Option<Vec<u8>> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?.into_owned();
    let mut full = root.join(decoded.trim_start_matches('/'));
    if full.is_dir() {
        full.push("index.html");
    }
    let real = full.canonicalize().ok()?;
    if real.starts_with(root.canonicalize().ok()?) { fs::read(real).ok() } else { None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_path_leads_outside(segments in prop::collection::vec(segment(), 1..7)) {
        let (site, server) = &*RANDOM;
        let path = format!("/{}", segments.join("/"));
        let mut stream: TcpStream = server.connect();
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
        let reply = read_reply(&mut stream, false);
        prop_assert_ne!(&reply.body, b"secret");
        if reply.status == 200 {
            prop_assert_eq!(Some(reply.body), allowed(&site.root(), &path));
        } else {
            // Not the other way round: a path that leaves the root and comes back is refused.
            prop_assert!(matches!(reply.status, 400 | 404), "{} for {}", reply.status, path);
            prop_assert!(reply.body.is_empty());
        }
    }
}
