// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whoever ends `tidelab crowd` before its time: it says so, and the interface is as it was.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tidegate_lab::{Link, Namespace, allowed_cpus, pin_command, say_skipped, skip_without_root};

/// A shell has what it runs in the background ignore ctrl-C, and these tests with it.
fn as_in_the_foreground() -> io::Result<()> {
    for ending in [Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: the default disposition runs no code of ours.
        unsafe { signal::signal(ending, signal::SigHandler::SigDfl) }?;
    }
    Ok(())
}

fn crowd(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelab"));
    command.args(["crowd", "--duration", "60s"]).args(arguments.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only sigaction(2) is called, which is async-signal-safe.
    unsafe { command.pre_exec(as_in_the_foreground) };
    command
}

/// Whether a process's first thread leaves a signal to another.
fn hears(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(blocked.trim(), 16).unwrap() >> (signal as u32 - 1) & 1 == 1
}

#[test]
fn a_crowd_that_is_ended_leaves_its_interface_as_it_was() {
    let test = "a_crowd_that_is_ended_leaves_its_interface_as_it_was";
    if skip_without_root(test) {
        return;
    }
    let [cpu, _, ..] = allowed_cpus().unwrap()[..] else {
        return say_skipped(test, &"there is one processor, and no other to poll on");
    };
    let server = Namespace::new("server").unwrap();
    let clients = Namespace::new("clients").unwrap();
    let cable = Link::between(&server, "srv0", &clients, "cli0").unwrap();
    cable.a().add_address("10.8.0.1/24").unwrap();
    cable.b().add_address("10.8.0.2/24").unwrap();
    cable.up().unwrap();
    let settings = || {
        ["threaded", "gro_flush_timeout", "napi_defer_hard_irqs"]
            .map(|name| clients.read_file(format!("/sys/class/net/cli0/{name}")).unwrap())
    };
    let before = settings();
    for ending in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut command = crowd("--to 10.8.0.1:80 --driver raw --rate 100");
        pin_command(&mut command, cpu).unwrap();
        let child = clients.spawn(command).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while settings() == before {
            assert!(Instant::now() < deadline, "the crowd never came");
            sleep(Duration::from_millis(5));
        }
        for _ in 0..2 {
            child.signal(ending).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{ending}: {said}");
        assert!(said.starts_with("tidelab: the crowd was told to stop"), "{said}");
        assert_eq!((said.lines().count(), &output.stdout[..]), (1, &b""[..]), "{ending}");
        assert_eq!(settings(), before, "{ending}");
    }
}

#[test]
fn a_crowd_of_kernel_sockets_is_ended_too() {
    let child = crowd("--to 127.0.0.1:9 --rate 10").spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !hears(child.id(), Signal::SIGTERM) {
        assert!(Instant::now() < deadline, "it never waits for signals");
        sleep(Duration::from_millis(5));
    }
    signal::kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("told to stop"), "{said}");
}
