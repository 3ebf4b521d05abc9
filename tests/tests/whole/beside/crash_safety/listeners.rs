// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Listeners come and go, and their sections.

use std::time::Duration;

use tidegate_tests::{
    Answer, Counted, Guard, LOOKS_BY, Stage, Stalled, fetch, fill, skip_without_root,
};

use super::{BACKLOG, Configuration, Full, PATIENCE, PLACES, arguments, server};

#[test]
fn a_listener_that_closes_and_opens_again_is_guarded_as_before() {
    if skip_without_root("a_listener_that_closes_and_opens_again_is_guarded_as_before") {
        return;
    }
    let stage = Stage::new("reopened");
    // Nothing listens yet: the guard stands and waits for it.
    let guard = Guard::start(&stage.server, &arguments("rst-syn", "ip"));
    let mut expected = 0;
    for round in 0..3 {
        let listener = Stalled::new(&stage.server, server(80), BACKLOG);
        let clients = fill(&stage.client, server(80), PLACES);
        let seen = fetch(&stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "round {round}");
        if round > 0 {
            // In time to have counters of its own; before, it is counted with its guard.
            std::thread::sleep(Duration::from_millis(600));
        }
        assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
        expected += 2;
        drop(clients);
        drop(listener);
        // The kernel itself refuses where nothing listens: no decision of ours.
        assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
        if round > 1 {
            std::thread::sleep(Duration::from_millis(600));
        }
        let counted = Counted::of(&stage.server);
        assert_eq!(
            counted.packets("ListenQFullAtSyn", "reset"),
            expected,
            "the count outlives its sockets, round {round}: {counted}"
        );
    }
    guard.stop();
}

/// A guard has its number for as long as its listener is guarded, and then another may have it.
#[test]
fn a_listener_in_the_place_of_another_has_none_of_its_counts() {
    if skip_without_root("a_listener_in_the_place_of_another_has_none_of_its_counts") {
        return;
    }
    let full = Full::new("replaced");
    let text = |port: u16| format!("[[listener]]\nport = {port}\nmechanism = \"rst-syn\"\n");
    let file = Configuration::new(&full.stage, &text(80));
    let mut guard = Guard::start(&full.stage.server, &["--config", Configuration::PATH]);
    let seen = fetch(&full.stage.client, server(80), PATIENCE);
    assert_eq!(seen.answer, Answer::Refused);
    assert_eq!(Counted::of(&full.stage.server).packets("ListenQFullAtSyn", "reset"), 1);
    let _other = Stalled::new(&full.stage.server, server(81), BACKLOG);
    file.write(&text(81));
    guard.reload();
    // By then the daemon has found out which sockets are gone from its guards.
    std::thread::sleep(LOOKS_BY);
    let counted = Counted::of(&full.stage.server);
    assert_eq!(counted.all(), 0, "nobody came to port 81: {counted}");
    guard.stop();
}
