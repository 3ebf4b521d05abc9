// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that is measured on, and its processors.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// What the figures were measured on.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_default();
    format!("Linux {}, {cpu}\n", read("/proc/sys/kernel/osrelease").trim())
}

/// Has the calling thread, or another one, run on one processor.
pub fn pin(thread: i32, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).expect("a processor of this machine");
    sched_setaffinity(Pid::from_raw(thread), &set).expect("the thread is there");
}
