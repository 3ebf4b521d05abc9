// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jamjoom's Grow (section 2.1.3): no new SYN is answered where the listen queue is as long as `places`
//! says, and who has its SYN/ACK finds room above it.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_tests::{
    Answer, Counted, Guard, Plain, SERVER_V4, SERVER_V6, Stage, Stalled, Withheld, fetch, fill,
    guard_of, half_open, listen_queue, skip_without_root, until,
};

/// The kernel's limit is far above.
const BACKLOG: i32 = 64;
const PLACES: usize = 4;
const PATIENCE: Duration = Duration::from_millis(300);
/// Local ports of clients whose ACKs are under way for long.
const FAR: std::ops::Range<u16> = 20_000..20_003;

fn story(label: &str, address: &str, mechanism: &str, told: Answer, verdict: &str) {
    let to = SocketAddr::new(address.parse().expect("an address"), 80);
    let stage = Stage::new(label);
    let listener = Stalled::new(&stage.server, to, BACKLOG);
    let text = format!("[[listener]]\nport = 80\nmechanism = \"{mechanism}\"\nplaces = {PLACES}\n");
    stage.server.run(move || fs::write("/run/tidegate.toml", text).expect("a configuration"));
    let guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);

    let withheld = Withheld::from_ports(&stage.client, FAR.start, FAR.end);
    let far = FAR.map(|port| Plain::connect(&stage.client, port, to, PATIENCE));
    let far: Vec<Plain> = far.collect();
    assert!(far.iter().all(Plain::connected), "they have their SYN/ACK");
    let near = fill(&stage.client, to, PLACES);
    until("the queue is as long as it may be", || listen_queue(&stage.server, to) == 4);
    assert_eq!(half_open(&stage.server, 80), FAR.len(), "and theirs are on their way");
    assert_eq!(fetch(&stage.client, to, PATIENCE).answer, told, "no place for a new one");
    assert!(Counted::of(&stage.server).packets("WaitLimit", verdict) > 0);

    // Theirs are seven together; a request says so sooner than a SYN/ACK that is sent again.
    drop(withheld);
    far.iter().for_each(|plain| plain.say(b"GET / HTTP/1.0\r\n\r\n"));
    until("who has its SYN/ACK finds room", || listen_queue(&stage.server, to) == 7);
    assert_eq!(fetch(&stage.client, to, PATIENCE).answer, told, "and still none for a new one");
    let status = guard.status();
    assert_eq!(guard_of(&status, 80, None)["listeners"][0]["places"], PLACES, "{status:#}");

    assert_eq!(listener.accept_all().len(), 7);
    drop(near);
    let _again = fill(&stage.client, to, PLACES);
    guard.stop();
}

#[test]
fn the_queue_grows_for_those_who_have_their_syn_ack_and_for_nobody_new() {
    if skip_without_root("the_queue_grows_for_those_who_have_their_syn_ack_and_for_nobody_new") {
        return;
    }
    story("places-default", SERVER_V4, "default", Answer::Silence, "drop");
    story("places-abort", SERVER_V6, "abort rst-syn", Answer::Refused, "reset");
    story("places-cookie", SERVER_V4, "no-syn-drop", Answer::Reset, "cookie");
}
