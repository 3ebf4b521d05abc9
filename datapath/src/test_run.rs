// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loaded program run once on a frame of our own (BPF_PROG_TEST_RUN): what it returns is carried
//! out by nobody.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

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
    run(program, &context, frame)
}

/// What a tc program returns for it.
pub(crate) fn ip(program: BorrowedFd<'_>, interface: u32, frame: &[u8]) -> io::Result<u32> {
    let mut context = [0; SKB_WORDS];
    context[SKB_INTERFACE] = interface;
    run(program, &context, frame)
}

fn run(program: BorrowedFd<'_>, context: &[u32], frame: &[u8]) -> io::Result<u32> {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        ctx_in: context.as_ptr().cast(),
        ctx_size_in: size_of_val(context) as u32,
        ..Default::default()
    };
    // SAFETY: the program is open, and every buffer is as long as its size says.
    let answer = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if answer < 0 {
        return Err(io::Error::from_raw_os_error(-answer));
    }
    Ok(options.retval)
}
