// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random paths lead nowhere outside the root.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;

use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::running::{Running, Way, read_reply};
use crate::site::Site;

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

/// What is wrong with the answer to a path, if anything.
fn follows(site: &Site, server: &Running, path: &str) -> Result<(), TestCaseError> {
    let mut stream: TcpStream = server.connect();
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
    let reply = read_reply(&mut stream, false);
    prop_assert_ne!(&reply.body, b"secret");
    if reply.status == 200 {
        prop_assert_eq!(Some(reply.body), allowed(&site.root(), path));
    } else {
        // Not the other way round: a path that leaves the root and comes back is refused.
        prop_assert!(matches!(reply.status, 400 | 404), "{} for {}", reply.status, path);
        prop_assert!(reply.body.is_empty());
    }
    Ok(())
}

/// One site and one server for all of them.
#[test]
fn no_path_leads_outside() {
    let site = Site::new();
    let server = site.serve(Way::default());
    let mut random = TestRunner::new(ProptestConfig::with_cases(2000));
    let paths = prop::collection::vec(segment(), 1..7);
    let followed =
        random.run(&paths, |segments| follows(&site, &server, &format!("/{}", segments.join("/"))));
    followed.unwrap();
}
