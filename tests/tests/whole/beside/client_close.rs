// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CLIENT_CLOSE, the extension request by which a client says that it closes: the column of Faber's
//! Table 4 that is about it, a test a cell (Faber, Touch and Yue, "The TIME-WAIT state in TCP and Its
//! Effect on Busy Servers", sections 4.2 and 6); and four servers of today that do not know it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tidegate_crowd::{Class, Close, Driver, Load, Outcome, Plan, Trace, run};
use tidegate_lab::{Child, Counters, Sockets, skip_without};
use tidegate_tests::{
    CLIENT_V4, Nginx, SERVER_V4, Stage, serve, skip_without_root, tidelab_program, until,
};

const PORT: u16 = 80;
const ATTEMPTS: u64 = 200;
const SAID: &[u8] = b"CLIENT_CLOSE / HTTP/1.1\r\nHost: a\r\n\r\n";
const NGINX: (&str, &str) = ("nginx", "nginx-light");

/// Our own server, which knows the request.
fn ours(stage: &Stage) -> Child {
    serve(&stage.server, &["--port=80"], None)
}

/// nginx, which does not.
fn nginx(stage: &Stage) -> Nginx {
    Nginx::start(&stage.server, &[&format!("{PORT} backlog=1024")])
}

/// So many attempts within a second, all of which are answered; whatever they take, all of it counts.
fn send(stage: &Stage, driver: Driver, close: Close) -> Outcome {
    // It may be there already.
    let _ = stage.link.a().add_route("10.128.0.0/24", Some(CLIENT_V4));
    let sources = match driver {
        Driver::Raw => vec!["10.128.0.0/24".parse().expect("a network")],
        Driver::Sockets => Vec::new(),
    };
    let starts: Vec<String> =
        (0..ATTEMPTS).map(|n| (n as f64 / ATTEMPTS as f64).to_string()).collect();
    let trace = Trace::parse(&starts.join("\n")).expect("a trace");
    let plan = Plan {
        driver,
        sources,
        targets: vec![format!("{SERVER_V4}:{PORT}").parse().expect("an address")],
        load: Load::Trace { trace, per_s: None },
        // Less than a minute: at its end those of the first second are still in TIME-WAIT.
        duration: Duration::from_secs(50),
        classes: vec![Class { close, ..Class::default() }],
        ..Plan::default()
    };
    let sent = stage.client.thread(move || run(&plan).expect("a crowd")).expect("a thread");
    let outcome = sent.join().expect("an outcome");
    assert_eq!((outcome.attempts, outcome.replies), (ATTEMPTS, ATTEMPTS), "{outcome:?}");
    let is_as_asked = driver == Driver::Sockets || outcome.driver.starts_with("AF_XDP");
    assert!(is_as_asked, "carried by {}", outcome.driver);
    outcome
}

fn held_by_server(stage: &Stage) -> u64 {
    Sockets::of(&stage.server).expect("counts").time_waits
}

/// "Reduces TIME-WAIT Loading: Yes."
#[test]
fn it_reduces_time_wait_loading() {
    if skip_without_root("it_reduces_time_wait_loading") {
        return;
    }
    let stage = Stage::new("close-loading");
    let _server = ours(&stage);
    send(&stage, Driver::Raw, Close::Server);
    assert_eq!(held_by_server(&stage), ATTEMPTS, "unmodified");
    let outcome = send(&stage, Driver::Raw, Close::ClientClose);
    assert_eq!(held_by_server(&stage), ATTEMPTS, "no more than before");
    assert_eq!(outcome.time_waits.expect("the crowd knows").at_end, ATTEMPTS, "at the clients");
}

/// "Compatible With Current Protocols: Yes." Whatever nginx says to it, no connection is reset. (A RST
/// by itself is nothing: on a busy machine a FIN is sent again, acknowledged again, and the socket that
/// sent it is gone.)
#[test]
fn it_is_compatible_with_current_protocols() {
    if skip_without("it_is_compatible_with_current_protocols", &[NGINX]) {
        return;
    }
    let stage = Stage::new("close-compatible");
    let _server = nginx(&stage);
    let before = Counters::of(&stage.server).expect("counters");
    let outcome = send(&stage, Driver::Raw, Close::ClientClose);
    assert_eq!(outcome.segments.rst_sent, 0, "{outcome:?}");
    let counted = Counters::of(&stage.server).and_then(|now| now.since(&before)).expect("counters");
    assert_eq!(counted.get("TcpEstabResets").expect("a counter"), 0);
}

/// "Changes Are Effective If Only The Client Is Modified: Yes."
#[test]
fn it_is_effective_if_only_the_client_is_modified() {
    if skip_without("it_is_effective_if_only_the_client_is_modified", &[NGINX]) {
        return;
    }
    let stage = Stage::new("close-alone");
    let _server = nginx(&stage);
    let outcome = send(&stage, Driver::Raw, Close::ClientClose);
    assert_eq!(held_by_server(&stage), 0);
    assert_eq!(outcome.time_waits.expect("the crowd knows").at_end, ATTEMPTS, "at the clients");
    send(&stage, Driver::Raw, Close::Server);
    assert_eq!(held_by_server(&stage), ATTEMPTS, "unmodified");
}

/// "Allows System To Prevent TIME-WAIT Assassination: Yes." Nothing of it depends on a RST that ends
/// TIME-WAIT.
#[test]
fn a_server_may_prevent_time_wait_assassination() {
    if skip_without_root("a_server_may_prevent_time_wait_assassination") {
        return;
    }
    let stage = Stage::new("close-rfc1337");
    for namespace in [&stage.server, &stage.client] {
        namespace.sysctl("net.ipv4.tcp_rfc1337", 1).expect("a sysctl");
    }
    let _server = ours(&stage);
    send(&stage, Driver::Raw, Close::ClientClose);
    assert_eq!(held_by_server(&stage), 0);
}

/// "No Changes To Transport Protocol: Yes." The clients here are this kernel's own sockets.
#[test]
fn the_transport_protocol_is_unchanged() {
    if skip_without_root("the_transport_protocol_is_unchanged") {
        return;
    }
    let stage = Stage::new("close-transport");
    let _server = ours(&stage);
    let before = Counters::of(&stage.client).expect("counters");
    send(&stage, Driver::Sockets, Close::ClientClose);
    let counted = Counters::of(&stage.client).and_then(|now| now.since(&before)).expect("counters");
    assert_eq!(counted.get("TcpOutRsts").expect("a counter"), 0);
    assert_eq!(held_by_server(&stage), 0);
    // The last one's server may still be closing.
    let clients = || Sockets::of(&stage.client).expect("counts").time_waits;
    until("each holds its own", || clients() == ATTEMPTS);
}

/// "No Changes To Application Protocols: No." Who does not know the request answers with an error,
/// who does says nothing.
#[test]
fn the_application_protocol_is_changed() {
    if skip_without("the_application_protocol_is_changed", &[NGINX]) {
        return;
    }
    let answer = |stage: &Stage| {
        stage.client.run(|| {
            let mut stream = TcpStream::connect((SERVER_V4, PORT)).expect("a connection");
            stream.write_all(SAID).expect("a server that reads");
            stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).map_err(|error| error.kind());
            read.map(|count| String::from_utf8_lossy(&bytes[..count]).into_owned())
        })
    };
    let stage = Stage::new("close-unknown");
    let unaware = nginx(&stage);
    let said = answer(&stage).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 4") || said.starts_with("HTTP/1.1 5"), "{said}");
    drop(unaware);
    let stage = Stage::new("close-known");
    let _server = ours(&stage);
    assert_eq!(answer(&stage), Err(ErrorKind::WouldBlock), "neither a word nor an end");
}

/// "Adds No Packet Exchanges To Modified Protocol: No." A request more; with its FIN in the same
/// segment it takes no segment more.
#[test]
fn it_adds_a_request() {
    if skip_without_root("it_adds_a_request") {
        return;
    }
    let stage = Stage::new("close-exchanges");
    let _server = ours(&stage);
    let data = |close| send(&stage, Driver::Raw, close).segments.data_sent;
    // Something may be sent again on a busy machine.
    assert!((ATTEMPTS..ATTEMPTS + 20).contains(&data(Close::Fin)));
    assert!((2 * ATTEMPTS..2 * ATTEMPTS + 20).contains(&data(Close::ClientClose)));
}

/// "TIME-WAIT Allocation Is A Requirement of Connection Establishment: No." The same server serves
/// clients that say nothing, and then holds TIME-WAIT itself.
#[test]
fn it_is_no_requirement_of_establishment() {
    if skip_without_root("it_is_no_requirement_of_establishment") {
        return;
    }
    let stage = Stage::new("close-required");
    let _server = ours(&stage);
    send(&stage, Driver::Raw, Close::ClientClose);
    assert_eq!(held_by_server(&stage), 0);
    send(&stage, Driver::Raw, Close::Server);
    assert_eq!(held_by_server(&stage), ATTEMPTS);
}

/// A server as scenarios start it, with clients that say it and with clients that leave the closing to
/// the server.
fn story_of(kind: &str) {
    let scenario = format!(
        "title = \"CLIENT_CLOSE at {kind}\"\nsource = \"a test\"\n[server]\nkind = \"{kind}\"\n\
         [clients]\nrequests = 2\ntimeout_s = 1\n[load]\noffered = [0.02]\nduration_s = 1\nwarm_up_s = 0.5\n\
         [[curve]]\nname = \"said\"\npeer = \"kernel\"\nclients = {{ close = \"client-close\" }}\n\
         [[curve]]\nname = \"not said\"\npeer = \"kernel\"\nclients = {{ close = \"server\" }}\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (folder.path().join("said.toml"), folder.path().join("out"));
    fs::write(&file, scenario).expect("a scenario");
    let mut tidelab = Command::new(tidelab_program());
    let output = tidelab.arg("run").arg(&file).arg("--out").arg(&out).output().expect("tidelab");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(out.join("result.jsonl")).expect("results");
    let points: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a point")).collect();
    let [said, not_said] = &points[..] else { panic!("two points: {text}") };
    for point in [said, not_said] {
        let errors = point["errors_per_s"].as_object().expect("a group").values();
        assert_eq!(errors.filter_map(Value::as_f64).sum::<f64>(), 0.0, "{point}");
        assert!(point["replies_per_s"].as_f64().expect("a number") > 0.0, "{point}");
    }
    let held = |point: &Value, by: &str| point["time_wait"][by].as_f64().expect("a number");
    assert_eq!((held(said, "server"), held(said, "clients") > 0.0), (0.0, true), "{said}");
    assert_eq!((held(not_said, "server") > 0.0, held(not_said, "clients")), (true, 0.0));
}

#[test]
fn nginx_holds_no_time_wait_for_who_says_so() {
    if !skip_without("nginx_holds_no_time_wait_for_who_says_so", &[NGINX]) {
        story_of("nginx");
    }
}

#[test]
#[ignore = "as nginx's; twenty seconds each"]
fn apache2_holds_no_time_wait_for_who_says_so() {
    if !skip_without("apache2_holds_no_time_wait_for_who_says_so", &[("apache2", "apache2-bin")]) {
        story_of("apache2");
    }
}

#[test]
#[ignore = "as nginx's; twenty seconds each"]
fn lighttpd_holds_no_time_wait_for_who_says_so() {
    if !skip_without("lighttpd_holds_no_time_wait_for_who_says_so", &[("lighttpd", "lighttpd")]) {
        story_of("lighttpd");
    }
}

#[test]
#[ignore = "as nginx's; twenty seconds each"]
fn haproxy_holds_no_time_wait_for_who_says_so() {
    if !skip_without("haproxy_holds_no_time_wait_for_who_says_so", &[("haproxy", "haproxy")]) {
        story_of("haproxy");
    }
}
