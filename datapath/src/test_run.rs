// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loaded program run once on a frame of our own (BPF_PROG_TEST_RUN): what it returns is carried
//! out by nobody.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

use crate::plain::bytes_of;

/// linux/bpf.h, struct xdp_md: the frame's end, the interface that it came in at.
const XDP_WORDS: usize = 6;
const XDP_DATA_END: usize = 1;
const XDP_INTERFACE: usize = 3;
/// linux/bpf.h, struct __sk_buff, as far as the interface.
const SKB_WORDS: usize = 11;
const SKB_INTERFACE: usize = 10;

/// What an XDP program returns for a frame that comes in at an interface.
pub(crate) fn driver(program: BorrowedFd<'_>, interface: u32, frame: &[u8]) -> io::Result<u32> {
    let mut context = [0; XDP_WORDS];
    context[XDP_DATA_END] = frame.len() as u32;
    context[XDP_INTERFACE] = interface;
    Ok(run(program, bytes_of(&context), frame, &mut [])?.0)
}

/// What a tc program returns for it.
pub(crate) fn ip(program: BorrowedFd<'_>, interface: u32, frame: &[u8]) -> io::Result<u32> {
    let mut context = [0; SKB_WORDS];
    context[SKB_INTERFACE] = interface;
    Ok(run(program, bytes_of(&context), frame, &mut [])?.0)
}

/// Runs a syscall program on a record that it fills in.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn ask(program: BorrowedFd<'_>, record: &mut [u8]) -> io::Result<()> {
    let mut options = bpf_test_run_opts {
        ctx_in: record.as_mut_ptr().cast(),
        ctx_size_in: record.len() as u32,
        ..Default::default()
    };
    carry_out(program, &mut options)
}

/// What a program returns, and how long the frame is that it leaves in `out`. XDP and tc programs
/// take one that arrives on the loopback interface of the calling thread's network namespace where
/// `context`, the type's own, names no other; syscall programs take none.
///
/// # Errors
///
/// The kernel's: `ENOSPC` where the frame is longer than `out` is, unless that is empty.
pub fn run(
    program: BorrowedFd<'_>,
    context: &[u8],
    frame: &[u8],
    out: &mut [u8],
) -> io::Result<(u32, usize)> {
    // A repeat of 0 is one run, and the only one that syscall programs take.
    let mut options = bpf_test_run_opts::default();
    // A program type that takes no frame takes no empty one either.
    if !frame.is_empty() {
        options.data_in = frame.as_ptr().cast();
        options.data_size_in = frame.len() as u32;
        if !out.is_empty() {
            options.data_out = out.as_mut_ptr().cast();
            options.data_size_out = out.len() as u32;
        }
    }
    if !context.is_empty() {
        options.ctx_in = context.as_ptr().cast();
        options.ctx_size_in = context.len() as u32;
    }
    carry_out(program, &mut options)?;
    Ok((options.retval, options.data_size_out as usize))
}

/// Runs a program. Every buffer of the options is as long as its size says; the kernel writes to those
/// for the frame that is left, and to the context of a syscall program.
fn carry_out(program: BorrowedFd<'_>, options: &mut bpf_test_run_opts) -> io::Result<()> {
    options.sz = size_of::<bpf_test_run_opts>() as _;
    // SAFETY: the program is open, and for the buffers both callers vouch.
    let answer = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), options) };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}
