// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Server and crowd as programs, each in a namespace of its own, over a real cable.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tidegate_lab::{Child, Counters, Link, Namespace, skip_without_root};

const TIDELAB: &str = env!("CARGO_BIN_EXE_tidelab");

fn tidelab(arguments: &str) -> Command {
    let mut command = Command::new(TIDELAB);
    command.args(arguments.split_whitespace());
    command
}

fn namespaces() -> (Namespace, Namespace) {
    let server = Namespace::new("server").unwrap();
    let clients = Namespace::new("clients").unwrap();
    let cable = Link::between(&server, "srv0", &clients, "cli0").unwrap();
    cable.a().add_address("10.8.0.1/24").unwrap();
    cable.a().add_address("fd08::1/64").unwrap();
    for host in 2..=5 {
        cable.b().add_address(&format!("10.8.0.{host}/24")).unwrap();
        cable.b().add_address(&format!("fd08::{host}/64")).unwrap();
    }
    cable.up().unwrap();
    (server, clients)
}

struct Server {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(namespace: &Namespace, arguments: &str) -> Self {
        let mut command = tidelab(&format!("serve {arguments}"));
        command.stdout(Stdio::piped());
        let mut child = namespace.spawn(command).unwrap();
        let output = BufReader::new(child.take_stdout().unwrap());
        let mut server = Self { child, output };
        assert!(server.line().starts_with("listening on "));
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn stop(mut self) -> Value {
        self.child.signal(Signal::SIGTERM).unwrap();
        let statistics = serde_json::from_str(&self.line()).unwrap();
        assert!(self.child.wait().unwrap().success());
        statistics
    }
}

fn crowd(namespace: &Namespace, arguments: &str) -> Value {
    let printed = namespace.output(tidelab(&format!("crowd {arguments}"))).unwrap();
    serde_json::from_str(&printed).unwrap()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a count"))
}

#[test]
fn a_server_at_ease_answers_everyone_over_both_families() {
    if skip_without_root("a_server_at_ease_answers_everyone_over_both_families") {
        return;
    }
    let (server_side, client_side) = namespaces();
    let server = Server::start(&server_side, "--port 80 --address 0.0.0.0 --address ::");
    let outcome = crowd(
        &client_side,
        "--to 10.8.0.1:80 --to [fd08::1]:80 --from 10.8.0.2-10.8.0.5 --from fd08::2-fd08::5 \
         --rate 300 --arrivals constant --duration 500ms --timeout 2s",
    );
    assert_eq!(count(&outcome["attempts"]), 150, "{outcome}");
    assert_eq!(count(&outcome["replies"]), 150, "{outcome}");
    assert_eq!(count(&server.stop()["replies"]), 150);
}

#[test]
fn an_overloaded_server_leaves_clients_hanging_and_the_kernel_counts_it() {
    if skip_without_root("an_overloaded_server_leaves_clients_hanging_and_the_kernel_counts_it") {
        return;
    }
    let (server_side, client_side) = namespaces();
    let server = Server::start(&server_side, "--port 80 --backlog 8 --cost-us 5000");
    let before = Counters::of(&server_side).unwrap();
    let outcome = crowd(
        &client_side,
        "--to 10.8.0.1:80 --from 10.8.0.2-10.8.0.5 --rate 800 --duration 1s --timeout 500ms",
    );
    let counted = Counters::of(&server_side).unwrap().since(&before).unwrap();
    assert!(counted.get("TcpExtListenDrops").unwrap() > 0);
    let errors = &outcome["errors"];
    assert!(count(&errors["timed_out_connecting"]) > 0, "{outcome}");
    assert_eq!(count(&errors["refused"]), 0, "{outcome}");
    assert!(count(&server.stop()["replies"]) > 0);
}

#[test]
fn the_demo_prints_its_table() {
    if skip_without_root("the_demo_prints_its_table") {
        return;
    }
    let demo = "demo --mechanism default --duration 500ms --timeout 300ms";
    let output = tidelab(demo).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\n  default  "), "{text}");
    assert!(text.contains("Left to itself"), "{text}");
    assert!(output.stderr.is_empty(), "no progress line without a terminal");
}

#[test]
fn a_mistake_is_one_sentence() {
    let mistakes = [
        ("crowd --to 10.8.0.1 --rate 3", "--to"),
        ("crowd --to 10.8.0.1:80", "--rate"),
        ("crowd --to 10.8.0.1:80 --rate -3", "--rate: -3 attempts"),
        ("crowd --to 10.8.0.1:80 --clients 0", "--clients: a closed loop needs at least one"),
        ("crowd --to 10.8.0.1:80 --clients 3 --arrivals constant", "--arrivals"),
        (
            "crowd --to 10.8.0.1:80 --rate 3 --interface lo",
            "--interface: kernel sockets cannot choose an interface: use raw packets",
        ),
        (
            "crowd --to 10.8.0.1:80 --rate 3 --large-replies",
            "--large-replies: kernel sockets cannot choose how replies come: use raw packets",
        ),
        ("crowd --to 10.8.0.1:80 --rate 3 --loss 2", "--loss: loss of 2 is no chance: give 0 to 1"),
        ("crowd --to 10.8.0.1:80 --rate 3 --reorder -1", "--reorder: reorder of -1 is no chance"),
        ("crowd --to 10.8.0.1:80 --rate 3 --delay-ms -1", "--delay-ms: "),
        ("crowd --to 10.8.0.1:80 --rate 3 --timeout 0", "--timeout: a timeout of 0 s"),
        ("crowd --to 10.8.0.1:80 --rate 3 --duration 0", "--duration: a duration of 0 s"),
        ("crowd --to 10.8.0.1:80 --rate 3 --from ::1", "source"),
        ("crowd --to 10.8.0.1:80 --rate 3 --duration 8h", "8h"),
        (
            "crowd --to 10.8.0.1:80 --rate 3 --duration 10000000000000000000 --warm-up 10000000000000000000",
            "--duration: a duration of 10000000000000000000 s",
        ),
        ("serve --port 65536", "65536"),
        ("serve --accept-limit 0", "accept limit"),
        ("serve --address 192.0.2.1 --port 80", "192.0.2.1:80"),
        ("demo --times 0", "--times"),
        ("demo --timeout 0", "tidelab: --timeout 0 is not 0.001 to 3600"),
        ("demo --timeout 3601s", "tidelab: --timeout 3601 is not 0.001 to 3600"),
        ("demo --duration 0", "tidelab: --duration 0 is not 0.001 to 86400"),
        ("demo --backlog 0", "tidelab: --backlog 0 is not between 1 and 65535"),
        ("demo --cost-us 99999999", "tidelab: --cost-us 99999999 is more than ten seconds"),
        ("demo --mechanism nope", "tidelab: --mechanism: unknown mechanism \"nope\"; known: auto"),
        (
            "report /no/such/folder",
            "/no/such/folder: there are no results; name a folder that `tidelab run` wrote, or its \
             result.jsonl",
        ),
        ("report /no/such/result.jsonl", "/no/such/result.jsonl: there are no results; name"),
        ("figure nope", "there is no figure nope; `tidelab figure --list` has all"),
        ("model --p 1", "--p 1"),
        ("model --queues 0", "'--queues <M>': give a number from 1;"),
        ("model --parallel 0", "'--parallel <M>': give a number from 1;"),
        ("model --cues 3", "; `tidelab model --help` shows what there is"),
        ("modle", "; `tidelab help` shows what there is"),
        ("model --os beos", "beos"),
        ("calibrate --from /no/such/folder", "/no/such/folder"),
    ];
    for (arguments, named) in mistakes {
        let Output { status, stderr, .. } = tidelab(arguments).output().unwrap();
        let sentence = String::from_utf8(stderr).unwrap();
        assert!(!status.success(), "{arguments}");
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
        assert!(sentence.contains(named), "{sentence}");
    }
}

/// It would take eight minutes, and all of it would be lost.
#[test]
fn a_machine_that_cannot_be_written_is_not_measured() {
    if skip_without_root("a_machine_that_cannot_be_written_is_not_measured") {
        return;
    }
    let output = tidelab("calibrate --out /no/such/folder/machine.toml").output().unwrap();
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(sentence.contains("cannot write /no/such/folder/machine.toml: "), "{sentence}");
}

#[test]
fn without_tidegate_the_demo_says_how_to_get_it() {
    if skip_without_root("without_tidegate_the_demo_says_how_to_get_it") {
        return;
    }
    let output = tidelab("demo").env("TIDEGATE_BIN", "/no/such/tidegate").output().unwrap();
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
    assert!(sentence.contains("/no/such/tidegate") && sentence.contains("cargo build"));
}
