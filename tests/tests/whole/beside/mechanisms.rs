// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real server, real clients: nginx does not get to its connections, its listen queue is
//! full. With each mechanism, curl and a plain connect() see what Shukla's thesis (4.1, 5.4)
//! says they should, at once where they are refused; when nginx goes on, so do they.
//!
//! Every story begins without a guard: the same clients hang, as the kernel has it. So none
//! of them can pass without its mechanism.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidegate_lab::Counters;
use tidegate_tests::{
    Answer, Curl, Guard, Nginx, Plain, SERVER_V4, SERVER_V6, Seen, Stage, Withheld, fetch, fill,
    guard_of, half_open, listen_queue, packets, skip_without_root, until,
};

const BACKLOG: usize = 8;
/// Linux lets a queue hold one more than its backlog.
const PLACES: usize = BACKLOG + 1;
/// A client that has heard nothing for this long hangs: a refused one hears within one.
const PATIENCE: Duration = Duration::from_millis(700);
/// Guards are loaded while these wait, which takes seconds on a busy machine.
const LONG_PATIENCE: Duration = Duration::from_secs(60);
/// No refusal takes longer, on a noisy machine either.
const AT_ONCE: Duration = Duration::from_millis(200);
/// Half of them take no longer.
const MEDIAN: Duration = Duration::from_millis(20);

const FULL: &str = "ListenQFullAtSyn";
const OVERFLOW_ACK: &str = "ListenQOverflow SYN/ACK ACK";
const OVERFLOW_OTHER: &str = "ListenQOverflow other";

fn servers() -> [SocketAddr; 2] {
    [SERVER_V4, SERVER_V6].map(|a| SocketAddr::new(a.parse().expect("an address"), 80))
}

/// nginx stopped, on IPv4 and IPv6, each with a listen queue of its own.
fn frozen_nginx(stage: &Stage) -> Nginx {
    let v4 = format!("80 backlog={BACKLOG}");
    let v6 = format!("[::]:80 ipv6only=on backlog={BACKLOG}");
    let nginx = Nginx::start(&stage.server, &[&v4, &v6]);
    nginx.freeze();
    nginx
}

fn fill_both(stage: &Stage) -> Vec<Plain> {
    let connections = servers().into_iter().flat_map(|to| fill(&stage.client, to, PLACES));
    let connections = connections.collect();
    for server in servers() {
        until("the listen queue is full", || {
            listen_queue(&stage.server, server) as usize == PLACES
        });
    }
    connections
}

/// What a plain client and curl see now, over IPv4 and IPv6.
fn everyone_sees(stage: &Stage) -> Vec<Answer> {
    let attempts = servers().map(|to| {
        let namespace = stage.client.clone();
        let curl = Curl::start(&namespace, None, to, PATIENCE);
        (thread::spawn(move || fetch(&namespace, to, PATIENCE)), curl)
    });
    attempts
        .into_iter()
        .flat_map(|(plain, curl)| {
            [plain.join().expect("a client ends").answer, curl.end().answer()]
        })
        .collect()
}

/// Clients whose SYN was answered while there was room; what they send since is held back.
struct UnderWay {
    plain: Vec<Plain>,
    curls: Vec<Curl>,
    withheld: Withheld,
}

impl UnderWay {
    fn start(stage: &Stage, first_port: u16, with_curl: bool) -> Self {
        let last_port = first_port + 19;
        let withheld = Withheld::from_ports(&stage.client, first_port, last_port);
        let connect = |to| Plain::connect(&stage.client, first_port, to, PATIENCE);
        let plain: Vec<Plain> = servers().into_iter().map(connect).collect();
        assert!(plain.iter().all(Plain::connected), "a SYN with room is answered");
        let ports = format!("{}-{last_port}", first_port + 1);
        let curl = |to| Curl::start(&stage.client, Some(&ports), to, LONG_PATIENCE);
        let curls = if with_curl { servers().into_iter().map(curl).collect() } else { Vec::new() };
        UnderWay { plain, curls, withheld }
    }

    /// Lets their segments go; what the plain clients see of their request.
    fn go(self, patience: Duration) -> (Vec<Plain>, Vec<Seen>, Vec<Curl>) {
        let UnderWay { mut plain, curls, withheld } = self;
        drop(withheld);
        let waiting = plain.drain(..).map(|mut client| {
            thread::spawn(move || {
                let seen = client.request(patience);
                (client, seen)
            })
        });
        let waiting: Vec<_> = waiting.collect();
        let (plain, seen) = waiting.into_iter().map(|t| t.join().expect("a client ends")).unzip();
        (plain, seen, curls)
    }
}

/// What a mechanism does, by the thesis.
struct Claim {
    mechanism: &'static str,
    /// A client whose SYN comes to a full queue.
    syn: Answer,
    /// What was done with it, in our counters: reason and verdict.
    syn_counted: (&'static str, &'static str),
    /// A client whose ACK was under way when the queue filled.
    ack: Answer,
    /// What was done with that.
    ack_verdict: &'static str,
}

fn story(claim: &Claim) {
    let label = claim.mechanism.replace(' ', "-");
    let stage = Stage::new(&label);
    let nginx = frozen_nginx(&stage);
    let early = UnderWay::start(&stage, 20_000, false);
    let late = UnderWay::start(&stage, 21_000, true);
    until("three clients a family are half open", || half_open(&stage.server, 80) == 6);
    let crowd = fill_both(&stage);

    // Without a guard, everyone hangs.
    let released = thread::spawn(move || early.go(PATIENCE));
    assert_eq!(everyone_sees(&stage), [Answer::Silence; 4], "without a guard");
    let (early, seen, _) = released.join().expect("clients end");
    assert!(seen.iter().all(|s| s.answer == Answer::Unanswered), "without a guard: {seen:?}");

    let guard = Guard::on_port(&stage.server, 80, claim.mechanism, "auto");
    let counted_before = guard.status();
    let kernel_before = Counters::of(&stage.server).expect("kernel counters");

    let (_late, seen, curls) = late.go(PATIENCE);
    assert!(seen.iter().all(|s| s.answer == claim.ack), "ACKs under way: {seen:?}");
    assert_eq!(everyone_sees(&stage), [claim.syn; 4], "{}", claim.mechanism);
    if claim.syn != Answer::Silence {
        answers_come_at_once(&stage, claim.syn);
    }
    if claim.ack == Answer::Reset {
        assert!(seen.iter().all(|s| s.after < AT_ONCE), "{seen:?}");
        for curl in curls {
            assert_eq!(curl.end().answer(), Answer::Reset, "curl, ACK under way");
        }
        // Those that hung since before the guard stood: freed when TCP tries again.
        for mut client in early {
            assert_eq!(client.wait(LONG_PATIENCE).answer, Answer::Reset);
        }
        until("refused requests are removed", || half_open(&stage.server, 80) == 0);
    }

    let kernel = Counters::of(&stage.server).expect("kernel counters");
    let counted = guard.status();
    counters_name_it(claim, &counted);
    what_is_ours_never_came_to_the_kernel(
        &counted_before,
        &counted,
        kernel.since(&kernel_before).expect("the same counters").get("TcpExtListenDrops"),
    );

    nginx.thaw();
    served_again(&stage, claim.mechanism);
    drop(crowd);
    guard.stop();
}

/// Nine refusals a family: the median is a matter of microseconds, the worst of the machine.
fn answers_come_at_once(stage: &Stage, answer: Answer) {
    for to in servers() {
        let mut after: Vec<Duration> = (0..9)
            .map(|_| {
                let seen = fetch(&stage.client, to, PATIENCE);
                assert_eq!(seen.answer, answer);
                seen.after
            })
            .collect();
        after.sort();
        assert!(after[4] < MEDIAN && after[8] < AT_ONCE, "{to} answered after {after:?}");
    }
}

fn counters_name_it(claim: &Claim, status: &Value) {
    let guard = guard_of(status, 80, None);
    assert_eq!(guard["mechanism"], claim.mechanism);
    let (reason, verdict) = claim.syn_counted;
    let listeners = guard["listeners"].as_array().expect("listeners");
    assert_eq!(listeners.len(), servers().len(), "one a family: {status:#}");
    for listener in listeners {
        assert!(packets(listener, reason, verdict) >= 2, "{reason} {verdict}: {status:#}");
        assert_eq!(listener["listen_queue"]["length"], PLACES);
        assert_eq!(listener["listen_queue"]["limit"], BACKLOG);
    }
    let others =
        ["pass", "drop", "reset", "cookie", "hollow"].into_iter().filter(|v| *v != verdict);
    for other in others {
        assert_eq!(packets(guard, reason, other), 0, "{reason} {other}: {status:#}");
    }
    let other = if claim.ack_verdict == "reset" { "pass" } else { "reset" };
    for reason in [OVERFLOW_ACK, OVERFLOW_OTHER] {
        assert_eq!(packets(guard, reason, other), 0, "{reason} {other}: {status:#}");
    }
    let overflows = packets(guard, OVERFLOW_ACK, claim.ack_verdict)
        + packets(guard, OVERFLOW_OTHER, claim.ack_verdict);
    assert!(overflows >= 2, "an overflow for each client under way: {status:#}");
}

/// The kernel drops what we pass, and nothing else comes to it.
fn what_is_ours_never_came_to_the_kernel(
    before: &Value,
    after: &Value,
    kernel_drops: Result<i64, tidegate_lab::LabError>,
) {
    let passed = |status: &Value| {
        let guard = guard_of(status, 80, None);
        [FULL, OVERFLOW_ACK, OVERFLOW_OTHER].map(|r| packets(guard, r, "pass")).iter().sum::<u64>()
    };
    let kernel_drops = kernel_drops.expect("ListenDrops") as u64;
    let passed = passed(after) - passed(before);
    assert!(kernel_drops <= passed, "the kernel dropped {kernel_drops}, we passed {passed}");
}

fn served_again(stage: &Stage, mechanism: &str) {
    for to in servers() {
        until("the worker took its queue", || listen_queue(&stage.server, to) == 0);
        let second = Duration::from_secs(1);
        let plain = fetch(&stage.client, to, second);
        assert_eq!(plain.answer, Answer::Status(200), "{mechanism}, thawed, connect()");
        assert!(plain.after < second, "{mechanism}: {:?}", plain.after);
        let curl = Curl::start(&stage.client, None, to, second).end();
        assert_eq!(curl.answer(), Answer::Status(200), "{mechanism}, thawed, curl: {curl:?}");
    }
}

#[test]
fn default_is_the_kernel_and_a_client_hangs() {
    if skip_without_root("default") {
        return;
    }
    story(&Claim {
        mechanism: "default",
        syn: Answer::Silence,
        syn_counted: (FULL, "pass"),
        ack: Answer::Unanswered,
        ack_verdict: "pass",
    });
}

#[test]
fn abort_resets_a_client_whose_ack_overflows() {
    if skip_without_root("abort") {
        return;
    }
    story(&Claim {
        mechanism: "abort",
        syn: Answer::Silence,
        syn_counted: (FULL, "pass"),
        ack: Answer::Reset,
        ack_verdict: "reset",
    });
}

#[test]
fn reserv_drops_a_syn_that_finds_no_place() {
    if skip_without_root("reserv") {
        return;
    }
    story(&Claim {
        mechanism: "reserv",
        syn: Answer::Silence,
        syn_counted: (FULL, "drop"),
        ack: Answer::Unanswered,
        ack_verdict: "pass",
    });
}

#[test]
fn rst_syn_refuses_a_client_at_once() {
    if skip_without_root("rst-syn") {
        return;
    }
    story(&Claim {
        mechanism: "rst-syn",
        syn: Answer::Refused,
        syn_counted: (FULL, "reset"),
        ack: Answer::Unanswered,
        ack_verdict: "pass",
    });
}

#[test]
fn abort_rst_syn_refuses_at_either_stage() {
    if skip_without_root("abort rst-syn") {
        return;
    }
    story(&Claim {
        mechanism: "abort rst-syn",
        syn: Answer::Refused,
        syn_counted: (FULL, "reset"),
        ack: Answer::Reset,
        ack_verdict: "reset",
    });
}

#[test]
fn reserv_rst_syn_refuses_a_syn_that_finds_no_place() {
    if skip_without_root("reserv rst-syn") {
        return;
    }
    story(&Claim {
        mechanism: "reserv rst-syn",
        syn: Answer::Refused,
        syn_counted: (FULL, "reset"),
        ack: Answer::Unanswered,
        ack_verdict: "pass",
    });
}

#[test]
fn no_syn_drop_answers_every_syn_and_resets_at_the_ack() {
    if skip_without_root("no-syn-drop") {
        return;
    }
    story(&Claim {
        mechanism: "no-syn-drop",
        syn: Answer::Reset,
        syn_counted: (FULL, "cookie"),
        ack: Answer::Reset,
        ack_verdict: "reset",
    });
}

#[test]
fn early_syn_drop_drops_before_the_kernel_does() {
    if skip_without_root("early-syn-drop") {
        return;
    }
    story(&Claim {
        mechanism: "early-syn-drop",
        syn: Answer::Silence,
        syn_counted: (FULL, "drop"),
        ack: Answer::Unanswered,
        ack_verdict: "pass",
    });
}

#[test]
fn abort_early_syn_drop_drops_early_and_resets_at_the_ack() {
    if skip_without_root("abort early-syn-drop") {
        return;
    }
    story(&Claim {
        mechanism: "abort early-syn-drop",
        syn: Answer::Silence,
        syn_counted: (FULL, "drop"),
        ack: Answer::Reset,
        ack_verdict: "reset",
    });
}

/// Clients more than there are places, their ACKs held back; then all ACKs at once.
/// Returns how many SYNs were answered, and the kernel's listen queue overflows.
fn acks_held_back(stage: &Stage, to: SocketAddr, refused: Answer) -> (usize, i64) {
    let withheld = Withheld::from_ports(&stage.client, 22_000, 22_099);
    let attempts: Vec<_> = (0..PLACES as u16 + 6)
        .map(|i| {
            let namespace = stage.client.clone();
            thread::spawn(move || Plain::connect(&namespace, 22_000 + i, to, PATIENCE))
        })
        .collect();
    let attempts: Vec<Plain> =
        attempts.into_iter().map(|t| t.join().expect("a client ends")).collect();
    let before = Counters::of(&stage.server).expect("kernel counters");
    drop(withheld);
    let (answered, others): (Vec<Plain>, Vec<Plain>) =
        attempts.into_iter().partition(Plain::connected);
    for mut other in others {
        assert_eq!(other.request(PATIENCE).answer, refused);
    }
    let places = answered.len();
    let requests: Vec<_> = answered
        .into_iter()
        .map(|mut client| {
            thread::spawn(move || {
                client.request(PATIENCE);
                client
            })
        })
        .collect();
    let answered: Vec<Plain> =
        requests.into_iter().map(|t| t.join().expect("a client ends")).collect();
    let overflows = Counters::of(&stage.server)
        .and_then(|now| now.since(&before))
        .and_then(|during| during.get("TcpExtListenOverflows"))
        .expect("kernel counters");
    answered.into_iter().for_each(Plain::discard);
    (places, overflows)
}

/// reserv promises only places that are free: none of those that it answered overflows.
fn reserv_never_overflows(mechanism: &str, refused: Answer) {
    let stage = Stage::new(&mechanism.replace(' ', "-"));
    let _nginx = frozen_nginx(&stage);
    let [v4, v6] = servers();

    let (answered, overflows) = acks_held_back(&stage, v4, Answer::Silence);
    assert!(answered > PLACES, "without reserv the kernel answers more SYNs than it has places");
    assert!(overflows > 0, "without reserv the ACKs of some overflow");

    let guard = Guard::on_port(&stage.server, 80, mechanism, "auto");
    let (answered, overflows) = acks_held_back(&stage, v6, refused);
    // A processor settles its last SYN when the next one comes: until then it counts twice.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let places = PLACES - processors.min(PLACES / 2)..=PLACES;
    assert!(places.contains(&answered), "{answered} answers for {PLACES} places");
    assert_eq!(overflows, 0, "{mechanism}");
    let status = guard.status();
    let counted = guard_of(&status, 80, None);
    let drops = &counted["queue_drops"];
    assert_eq!(drops["ListenQOverflow_syn_ack_acks"], 0, "{status:#}");
    let verdict = if refused == Answer::Refused { "reset" } else { "drop" };
    assert!(packets(counted, "NoReservation", verdict) > 0, "{status:#}");
}

#[test]
fn reserv_answers_one_syn_for_each_place() {
    if skip_without_root("reserv, places") {
        return;
    }
    reserv_never_overflows("reserv", Answer::Silence);
}

#[test]
fn reserv_rst_syn_refuses_when_every_place_is_promised() {
    if skip_without_root("reserv rst-syn, places") {
        return;
    }
    reserv_never_overflows("reserv rst-syn", Answer::Refused);
}
