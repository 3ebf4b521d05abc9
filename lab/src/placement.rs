// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processor does what.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::LabError;

/// The processors that this process may use, in order.
///
/// # Errors
/// [`LabError::Placement`] when the kernel does not say.
pub fn allowed_cpus() -> Result<Vec<usize>, LabError> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|errno| LabError::Placement { cpu: 0, source: errno.into() })?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// Has the calling thread run on one processor only, and the threads that it starts from then on.
///
/// # Errors
/// [`LabError::Placement`] when there can be no such processor.
pub fn pin_thread(cpu: usize) -> Result<(), LabError> {
    pin_task(0, cpu)
}

/// Has one thread, by its number, run on one processor only; 0 is the calling one.
pub(crate) fn pin_task(thread: i32, cpu: usize) -> Result<(), LabError> {
    let failed = |errno: nix::Error| LabError::Placement { cpu, source: errno.into() };
    let mut set = CpuSet::new();
    set.set(cpu).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(thread), &set).map_err(failed)
}

/// Has one thread of a processor run before every program that has no real-time priority, as an
/// interrupt does.
pub(crate) fn put_first(thread: i32, cpu: usize) -> Result<(), LabError> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the parameter during the call.
    let answer = unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &raw const priority) };
    let done = Errno::result(answer).map(drop);
    done.map_err(|errno| LabError::Placement { cpu, source: errno.into() })
}

/// Has the program run on one processor only.
///
/// # Errors
/// [`LabError::Placement`] when there can be no such processor.
pub fn pin_command(command: &mut Command, cpu: usize) -> Result<(), LabError> {
    let mut set = CpuSet::new();
    set.set(cpu).map_err(|errno| LabError::Placement { cpu, source: errno.into() })?;
    // SAFETY: between fork and exec one system call is made, on a set that the closure owns.
    unsafe {
        command
            .pre_exec(move || sched_setaffinity(Pid::from_raw(0), &set).map_err(io::Error::from));
    }
    Ok(())
}
