// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nobody reads what a daemon says.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use tidegate_tests::{Stage, bpf, run_to_end, skip_without_root, tidegate_program, until};

use super::{ended_by_sigterm, nothing_is_left};

/// A pager that is left alone, or a terminal that was stopped.
#[test]
fn a_daemon_that_nobody_reads_stands_and_ends_when_it_is_told_to() {
    if skip_without_root("a_daemon_that_nobody_reads_stands_and_ends_when_it_is_told_to") {
        return;
    }
    let stage = Stage::new("unread");
    let host = &stage.server;
    for arguments in [&["run", "--port", "80"][..], &["agent", "--destination", "::1"]] {
        let (_reader, mut full) = std::io::pipe().expect("a pipe");
        // As much as a pipe holds.
        full.write_all(&[b'.'; 65536]).expect("room for it");
        let mut command = Command::new(tidegate_program());
        command.args(arguments).stdout(full.try_clone().expect("a pipe")).stderr(full);
        let mut child = host.spawn(command).expect("tidegate starts");
        until("it stands", || run_to_end(host, &["status"]).status.success());
        // By then it has something to say.
        std::thread::sleep(Duration::from_millis(500));
        let all = &bpf::held_by(child.id()) | &bpf::pinned(host);
        assert!(!all.is_empty(), "{arguments:?}");
        let ended = ended_by_sigterm(&mut child);
        assert!(ended.is_some_and(|status| status.success()), "{arguments:?}: {ended:?}");
        nothing_is_left(&stage, &all);
    }
}
