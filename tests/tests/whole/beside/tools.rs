// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The servers speak to the programs that people use: curl, wrk, h2load and a browser.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use tempfile::TempDir;
use tidegate_lab::{Child, Namespace, skip_without};
use tidegate_tests::serve;

/// Every server, and every way in which it learns of events.
const WAYS: [&[&str]; 7] = [
    &["--server=userver", "--events=select"],
    &["--server=userver", "--events=poll"],
    &["--server=userver", "--events=epoll"],
    &["--server=userver", "--events=io_uring"],
    &["--server=knot-c"],
    &["--server=knot-a"],
    &["--server=tux"],
];
/// Each with its package.
const TOOLS: [(&str, &str); 4] =
    [("curl", "curl"), ("wrk", "wrk"), ("h2load", "nghttp2-client"), ("chromium", "chromium")];
/// Larger than any socket's buffer.
const LARGE_BYTES: usize = 9_000_000;
const PAGE: &str = "<!doctype html><title>servers</title><link rel=stylesheet href=/style.css>\
    <body><p id=told>nothing yet</p><script src=/told.js></script>";
const SCRIPT: &str = "const told = document.getElementById('told');\
    told.textContent = 'ran, and is ' + getComputedStyle(told).color;";

struct Site {
    folder: TempDir,
    namespace: Namespace,
    _server: Child,
}

impl Site {
    fn served(way: &[&str]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let place = |name: &str, content: &[u8]| {
            fs::write(folder.path().join(name), content).expect("a file");
        };
        place("index.html", PAGE.as_bytes());
        place("told.js", SCRIPT.as_bytes());
        place("style.css", b"#told { color: rgb(1, 2, 3) }");
        place("large", &vec![b'~'; LARGE_BYTES]);
        let namespace = Namespace::new("tools").expect("a namespace");
        let root = format!("--root={}", folder.path().display());
        let server = serve(&namespace, &[&["--port=80", root.as_str()], way].concat(), None);
        Self { folder, namespace, _server: server }
    }

    /// What a program prints, which must end well.
    fn told(&self, line: &str) -> String {
        let mut command = self.namespace.command(line);
        command.env("HOME", self.folder.path()).stderr(Stdio::null());
        self.namespace.output(command).expect("it ends well")
    }
}

#[test]
fn curl_wrk_h2load_and_a_browser_work_with_every_server() {
    if skip_without("curl_wrk_h2load_and_a_browser_work_with_every_server", &TOOLS) {
        return;
    }
    // Side by side, since a browser takes its time to come up, and no rate is asked for.
    thread::scope(|scope| {
        for ways in WAYS.chunks(WAYS.len().div_ceil(2)) {
            scope.spawn(|| ways.iter().for_each(|way| work_with(way)));
        }
    });
}

fn work_with(way: &[&str]) {
    let site = Site::served(way);
    curl(&site, way);
    wrk(&site, way);
    h2load(&site, way);
    browser(&site, way);
}

/// Two files over one connection, each of its length and with its type.
fn curl(site: &Site, way: &[&str]) {
    let told = site.told(
        "curl -s -o /dev/null -o /dev/null \
         -w %{http_code}|%{size_download}|%{num_connects}|%{content_type}\\n \
         http://127.0.0.1/large http://127.0.0.1/index.html",
    );
    let lines: Vec<&str> = told.lines().collect();
    let [large, page] = lines[..] else { panic!("{way:?}: {told}") };
    assert!(large.starts_with(&format!("200|{LARGE_BYTES}|1|")), "{way:?}: {large}");
    // No new connection: the first serves again.
    assert!(page.starts_with(&format!("200|{}|0|text/html", PAGE.len())), "{way:?}: {page}");
}

/// As many connections as it has, for a second, and none goes wrong.
fn wrk(site: &Site, way: &[&str]) {
    let told = site.told("wrk -t1 -c50 -d1s http://127.0.0.1/index.html");
    assert!(!told.contains("Socket errors") && !told.contains("Non-2xx"), "{way:?}: {told}");
    let line = told.lines().find(|line| line.contains(" requests in ")).unwrap_or_default();
    let requests: u64 = line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    assert!(requests > 50, "{way:?}: {told}");
}

/// HTTP/1.1, eight requests under way on each connection.
fn h2load(site: &Site, way: &[&str]) {
    let told = site.told("h2load --h1 -n2000 -c20 -m8 http://127.0.0.1/style.css");
    assert!(told.contains("2000 succeeded, 0 failed"), "{way:?}: {told}");
    assert!(told.contains("status codes: 2000 2xx"), "{way:?}: {told}");
}

/// The page, its style and its script, as the browser sees them in the end.
fn browser(site: &Site, way: &[&str]) {
    let profile = site.folder.path().join("profile");
    let told = site.told(&dump_dom(&profile));
    assert!(told.contains("ran, and is rgb(1, 2, 3)"), "{way:?}: {told}");
}

fn dump_dom(profile: &Path) -> String {
    format!(
        "chromium --headless --no-sandbox --disable-gpu --disable-breakpad \
         --user-data-dir={} --dump-dom http://127.0.0.1/",
        profile.display()
    )
}
