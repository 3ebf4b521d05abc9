// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate top` on a terminal: it shows what is, and leaves the terminal as it was, whatever ends it.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidegate_lab::{Namespace, is_dead, skip_without, skip_without_root};
use tidegate_tests::{Guard, Stage, run_to_end, tidegate_program, until};

/// What a terminal of 120 columns and 30 rows is sent, and how it was left. Once the screen is there
/// `keys`, a shell command's output, is typed.
fn screen(namespace: &Namespace, keys: &str) -> String {
    let top = tidegate_program();
    let inner = format!("stty cols 120 rows 30; {} top; echo ended $?; stty -a", top.display());
    let shown =
        "for i in $(seq 150); do grep -qs \"q ends it\" /run/screen && break; sleep 0.1; done";
    let typed = format!("rm -f /run/screen; ({shown}; {keys})");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{typed} | timeout 20 script -qefc '{inner}' /run/screen")]);
    namespace.output(command).expect("a terminal")
}

/// The last of `screen`, when the terminal is its own again.
fn is_left_as_it_was(screen: &str) {
    let (_, after) = screen.rsplit_once("\x1b[?1049l").expect("the screen before is back");
    assert!(after.contains("ended 0"), "{after:?}");
    let is_cooked = after.contains(" icanon") && after.contains(" echo ");
    assert!(is_cooked && !after.contains("-icanon"), "{after:?}");
}

#[test]
fn it_shows_what_is_until_a_key_or_a_signal_ends_it() {
    const TEST: &str = "it_shows_what_is_until_a_key_or_a_signal_ends_it";
    if skip_without(TEST, &[("script", "bsdutils"), ("pkill", "procps")]) {
        return;
    }
    let stage = Stage::new("top");
    let none = screen(&stage.server, "printf q");
    assert!(none.contains("no guard stands here"), "{none:?}");
    is_left_as_it_was(&none);

    let guard = Guard::on_port(&stage.server, 80, "abort rst-syn", "ip");
    let daemon = format!("{};", guard.pid());
    // The shell that asks is in this terminal's session, too.
    let signal = "pkill -TERM --ns $$ --nslist net -f \"tidegate top$\"; sleep 1";
    for keys in ["printf q", "printf \"\\003\"", signal] {
        let seen = screen(&stage.server, keys);
        // In words: over what is blank already a screen is not written, but passed.
        for expected in [&daemon, "80:", "abort", "rst-syn", "let in/s", "listener", "q ends it"] {
            assert!(seen.contains(expected), "{keys}: {expected} is in {seen:?}");
        }
        is_left_as_it_was(&seen);
    }
    guard.stop();
}

/// A process that nothing else ends where the story fails.
struct Ended(Pid);

impl Drop for Ended {
    fn drop(&mut self) {
        if !is_dead(self.0) {
            let _ = kill(self.0, Signal::SIGKILL);
        }
    }
}

/// It looked for keys for ever, and took a processor for that.
#[test]
fn it_ends_when_its_terminal_is_gone() {
    const TEST: &str = "it_ends_when_its_terminal_is_gone";
    if skip_without(TEST, &[("script", "bsdutils")]) {
        return;
    }
    let stage = Stage::new("top-gone");
    for before in ["", "trap \"\" HUP;"] {
        let top = tidegate_program();
        let inner = format!("echo $$ > /run/top; {before} exec {} top", top.display());
        let line = format!("sleep 9 | timeout --signal=KILL 2 script -qec '{inner}' /dev/null");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdout(Stdio::null());
        let _terminal = stage.server.spawn(command).expect("a terminal");
        let number = || stage.server.run(|| fs::read_to_string("/run/top")).unwrap_or_default();
        until("it runs", || number().ends_with('\n'));
        let top = Ended(Pid::from_raw(number().trim().parse().expect("a process")));
        assert!(!is_dead(top.0), "it waits for keys");
        until("it has ended", || is_dead(top.0));
        stage.server.run(|| fs::remove_file("/run/top")).expect("it was there");
    }
}

#[test]
fn without_a_terminal_it_says_what_needs_none() {
    if skip_without_root("without_a_terminal_it_says_what_needs_none") {
        return;
    }
    let stage = Stage::new("top-none");
    let output = run_to_end(&stage.server, &["top"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "tidegate: `tidegate top` needs a terminal; `tidegate status` prints the same once\n"
    );
}
