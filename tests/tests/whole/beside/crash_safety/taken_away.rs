// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What another hand takes away under a daemon.

use nix::sys::signal::Signal;
use tidegate_tests::{Answer, Counted, Guard, bpf, fetch, run_to_end, skip_without_root, until};

use super::{
    Full, PATIENCE, arguments, is_mounted, nothing_is_left, objects, server, unmount_bpffs,
};

/// By a hand in bpffs that meant another, say. The daemon has no link of its own: the kernel has let go of all.
#[test]
fn a_guard_that_is_taken_away_under_its_daemon_is_put_back() {
    if skip_without_root("a_guard_that_is_taken_away_under_its_daemon_is_put_back") {
        return;
    }
    for (hook, link) in [("ip", "ingress"), ("driver", "driver")] {
        let full = Full::new(&format!("taken-away-{hook}"));
        full.stage.receive_offload();
        let host = &full.stage.server;
        unmount_bpffs(host);
        let mut guard = Guard::start(host, &arguments("rst-syn", hook));
        let told = guard.complaint().expect("whose mount it is");
        assert!(told.contains("does not outlive its daemon here"), "{told}");
        let fetched = || fetch(&full.stage.client, server(80), PATIENCE).answer;
        assert_eq!(fetched(), Answer::Refused, "{hook}");
        let stands = || {
            let found = format!("find {} -name {link}-*", bpf::PINS);
            host.output(host.command(&found)).is_ok_and(|found| !found.is_empty())
        };
        assert!(stands(), "{hook}");
        let all = format!("rm -r {}", bpf::PINS);
        let links = format!("find {} -name {link}-* -delete", bpf::PINS);
        // With the mark that bpffs was mounted by tidegate, before it mounts one again and after.
        for how in [all.as_str(), links.as_str(), "umount -l /sys/fs/bpf", all.as_str()] {
            // At once: it looks four times a second.
            guard.signal(Signal::SIGSTOP);
            host.output(host.command(how)).unwrap_or_else(|e| panic!("{how}: {e}"));
            guard.signal(Signal::SIGCONT);
            let told = guard.complaint().unwrap_or_else(|| panic!("{hook}, {how}: it says so"));
            assert!(told.contains("a part of the guard away: it is put back"), "{how}: {told}");
            until("its links stand again", stands);
            assert_eq!(fetched(), Answer::Refused, "{hook}, {how}");
            assert_eq!(Counted::of(host).mechanism(), "rst-syn", "{hook}, {how}");
        }
        let objects = objects(&guard, &full.stage);
        guard.stop();
        nothing_is_left(&full.stage, &objects);
        assert!(!is_mounted(host), "{hook}: the mount was tidegate's");
    }
}

/// Where the daemon does not see it, nobody is told that nothing was counted.
#[test]
fn a_map_that_is_taken_away_is_told_of_until_it_is_put_back() {
    if skip_without_root("a_map_that_is_taken_away_is_told_of_until_it_is_put_back") {
        return;
    }
    let full = Full::new("map-away");
    let host = &full.stage.server;
    let mut guard = Guard::start(host, &arguments("rst-syn", "ip"));
    let explain = ["explain", "--from", "10.77.0.2:40000", "--to", "10.77.0.1:80"];
    // Two that the readers' object declares, and one that it does not.
    for map in ["counters", "slots", "accepts"] {
        let seen = fetch(&full.stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "{map}");
        let before = Counted::of(host).all();
        guard.signal(Signal::SIGSTOP);
        let taken = format!("find {} -name {map} -delete", bpf::PINS);
        host.output(host.command(&taken)).expect("it is taken away");
        let output = run_to_end(host, &["status"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{map}: {told}");
        assert!(told.contains(&format!("/maps/{map}: ")), "{told}");
        let output = run_to_end(host, &explain);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{map}: {told}");
        assert!(told.contains("its start was cut short"), "{map}: {told}");
        guard.signal(Signal::SIGCONT);
        let told = guard.complaint().expect("the daemon says so");
        assert!(told.contains("a part of the guard away: it is put back"), "{map}: {told}");
        assert!(Counted::of(host).all() >= before && before > 0, "{map}");
    }
    let objects = objects(&guard, &full.stage);
    guard.stop();
    nothing_is_left(&full.stage, &objects);
}
