// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prometheus is told what `tidegate status` tells, in words that its own parser understands, for as
//! long as a guard stands and after.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tidegate_lab::{Namespace, skip_without};
use tidegate_tests::{
    Answer, Guard, SERVER_V4, SERVER_V6, Stage, Stalled, fetch, fill, guard_of, run_to_end,
    tidegate_program, until,
};

const PATIENCE: Duration = Duration::from_millis(300);
const BACKLOG: i32 = 4;
const AT: &str = "127.0.0.1:9818";

/// Prometheus' own parser of OpenMetrics: every sample, by its name and labels.
const PARSE: &str = r#"
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
print(json.dumps([
    {"name": sample.name, "labels": sample.labels, "value": sample.value, "type": family.type}
    for family in text_string_to_metric_families(sys.stdin.read())
    for sample in family.samples
]))
"#;

/// What was exposed.
struct Exposed(Vec<Value>);

impl Exposed {
    fn parsed(namespace: &Namespace, text: String) -> Self {
        namespace.run(|| std::fs::write("/run/metrics", text)).expect("a written file");
        let mut python = Command::new("sh");
        python.args(["-c", "exec /usr/bin/python3 -c \"$0\" < /run/metrics", PARSE]);
        let samples = namespace.output(python).expect("Prometheus' parser understands it");
        Exposed(serde_json::from_str(&samples).expect("JSON"))
    }

    /// As `tidegate metrics` prints it.
    fn printed(namespace: &Namespace) -> Self {
        let output = run_to_end(namespace, &["metrics"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::parsed(namespace, String::from_utf8(output.stdout).expect("text"))
    }

    /// As it is served: what was read before is told again for a second at most.
    fn served(namespace: &Namespace) -> Self {
        thread::sleep(Duration::from_secs(1));
        Self::parsed(namespace, get(namespace, "metrics"))
    }

    /// The sample with these labels and no others.
    fn value(&self, name: &str, labels: Value) -> Option<f64> {
        let mut all = self.0.iter();
        all.find(|s| s["name"] == name && s["labels"] == labels)?["value"].as_f64()
    }

    /// All of one name.
    fn all(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |sample| sample["name"] == name)
    }
}

fn get(namespace: &Namespace, path: &str) -> String {
    let line = format!("curl --silent --max-time 5 http://{AT}/{path}");
    namespace.output(namespace.command(&line)).expect("it is served")
}

/// Whether every figure of a guard's in a status is among those exposed.
fn agrees(exposed: &Exposed, status: &Value) {
    let guard = guard_of(status, 80, None);
    let mut packets = 0.0;
    for (reason, counts) in guard["verdicts"].as_object().expect("verdicts") {
        for (verdict, count) in counts.as_object().expect("verdicts of a reason") {
            let labels = serde_json::json!({"port": "80", "verdict": verdict, "reason": reason});
            assert_eq!(exposed.value("tidegate_packets_total", labels), count.as_f64(), "{reason}");
            packets += count.as_f64().expect("a number");
        }
    }
    let exposed_packets = exposed.all("tidegate_packets_total").map(|s| s["value"].as_f64());
    assert_eq!(exposed_packets.sum::<Option<f64>>(), Some(packets), "all others are 0");
    for (rule, count) in guard["queue_drops"].as_object().expect("rules") {
        let labels = serde_json::json!({"port": "80", "rule": rule});
        assert_eq!(exposed.value("tidegate_queue_drops_total", labels), count.as_f64(), "{rule}");
    }
    for listener in guard["listeners"].as_array().expect("listeners") {
        let of = |queue: &str, what: &str| listener[queue][what].as_f64();
        let labels = || serde_json::json!({"listener": listener["address"]});
        let told = |name: &str| exposed.value(name, labels());
        assert_eq!(told("tidegate_listen_queue_length"), of("listen_queue", "length"));
        assert_eq!(told("tidegate_listen_queue_limit"), of("listen_queue", "limit"));
        assert_eq!(told("tidegate_syn_queue_length"), of("syn_queue", "length"));
        assert_eq!(told("tidegate_listening_sockets"), Some(1.0));
        let phase = listener["overload"]["phase"].as_str().expect("a phase");
        let labels = serde_json::json!({"listener": listener["address"], "phase": phase});
        assert_eq!(exposed.value("tidegate_overload_phase", labels), Some(1.0), "{phase}");
    }
}

#[test]
fn prometheus_is_told_what_status_tells_with_a_daemon_and_without() {
    const TEST: &str = "prometheus_is_told_what_status_tells_with_a_daemon_and_without";
    if skip_without(TEST, &[("curl", "curl"), ("/usr/bin/python3", "python3-prometheus-client")]) {
        return;
    }
    let stage = Stage::new("metrics");
    let host = &stage.server;
    let none = Exposed::printed(host);
    assert_eq!(none.value("tidegate_guard_attached", serde_json::json!({})), Some(0.0));

    let servers = [SERVER_V4, SERVER_V6]
        .map(|address| SocketAddr::new(address.parse().expect("an address"), 80));
    let _listeners = servers.map(|at| Stalled::new(host, at, BACKLOG));
    let guard = Guard::start(host, &["--port", "80"]);
    let mut serving = Guard::metrics(host, AT);
    for at in servers {
        let _held = fill(&stage.client, at, BACKLOG as usize + 1);
        assert_eq!(fetch(&stage.client, at, PATIENCE).answer, Answer::Silence);
    }
    let labels = serde_json::json!({"port": "80", "verdict": "reset", "reason": "NewFirst"});
    let printed = Exposed::printed(host);
    assert_eq!(printed.value("tidegate_packets_total", labels), Some(0.0), "before the first");
    let status = guard.status();
    assert!(guard_of(&status, 80, None)["verdicts"]["ListenQFullAtSyn"].is_object(), "{status:#}");
    agrees(&printed, &status);
    agrees(&Exposed::served(host), &status);

    let is = |name: &str| Exposed::served(host).value(name, serde_json::json!({}));
    assert_eq!(
        (is("tidegate_guard_attached"), is("tidegate_daemon_running")),
        (Some(1.0), Some(1.0))
    );
    guard.kill();
    assert_eq!(
        (is("tidegate_guard_attached"), is("tidegate_daemon_running")),
        (Some(1.0), Some(0.0))
    );
    agrees(&Exposed::served(host), &tidegate_tests::status(host));
    assert!(run_to_end(host, &["stop"]).status.success());
    assert_eq!(is("tidegate_guard_attached"), Some(0.0));
    assert_eq!(Exposed::served(host).all("tidegate_packets_total").count(), 0);
    serving.terminate();
}

#[test]
fn who_asks_for_something_else_or_where_another_listens_is_told() {
    const TEST: &str = "who_asks_for_something_else_or_where_another_listens_is_told";
    if skip_without(TEST, &[("curl", "curl")]) {
        return;
    }
    let stage = Stage::new("metrics-bad");
    let mut serving = Guard::metrics(&stage.server, AT);
    assert_eq!(get(&stage.server, ""), "There is nothing here but /metrics.\n");
    let again = run_to_end(&stage.server, &["metrics", "--listen", AT]);
    assert_eq!(
        String::from_utf8_lossy(&again.stderr),
        format!(
            "tidegate: --listen {AT}: Address already in use (os error 98); \
             give an address of this host, and a port that is free\n"
        )
    );
    assert_eq!(again.status.code(), Some(1));
    serving.terminate();
}

/// Its journal may be on a disk that is full.
#[test]
fn they_are_served_whether_that_can_be_said_or_not() {
    if skip_without("they_are_served_whether_that_can_be_said_or_not", &[("curl", "curl")]) {
        return;
    }
    let stage = Stage::new("metrics-full");
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = Command::new(tidegate_program());
    command.args(["metrics", "--listen", AT]).stdout(full).stderr(Stdio::null());
    let mut serving = stage.server.spawn(command).expect("tidegate starts");
    until("they are served", || {
        let line = format!("curl --silent --max-time 5 http://{AT}/metrics");
        stage.server.output(stage.server.command(&line)).is_ok()
    });
    serving.signal(Signal::SIGTERM).expect("it still serves");
    let ended = serving.wait_for(Duration::from_secs(10)).expect("a process");
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}
