// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the datapath's tests share: programs run on packets of our choosing.

// Each test is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub mod cookie;
pub mod pair;
pub mod scene;
pub mod segment;
pub mod strict;
pub mod wire;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

/// What a program made of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran<'a> {
    /// What it returned.
    pub returned: u32,
    /// The packet as it left it.
    pub packet: &'a [u8],
}

/// Runs programs by BPF_PROG_TEST_RUN, in the network namespace of the calling thread.
pub struct Runner {
    out: Vec<u8>,
}

impl Runner {
    /// A runner for packets up to a page.
    pub fn new() -> Self {
        Runner { out: vec![0; 4096] }
    }

    /// One packet through `program`. XDP and tc programs take a frame that arrives on the
    /// namespace's loopback interface.
    pub fn run(
        &mut self,
        program: BorrowedFd<'_>,
        packet: &[u8],
        context: &[u8],
    ) -> io::Result<Ran<'_>> {
        // A repeat of 0 is one run, and the only one that syscall programs take.
        let mut options =
            bpf_test_run_opts { sz: size_of::<bpf_test_run_opts>() as _, ..Default::default() };
        // A program type that takes no packet takes no empty one either.
        if !packet.is_empty() {
            options.data_in = packet.as_ptr().cast();
            options.data_size_in = packet.len() as u32;
            options.data_out = self.out.as_mut_ptr().cast();
            options.data_size_out = self.out.len() as u32;
        }
        if !context.is_empty() {
            options.ctx_in = context.as_ptr().cast();
            options.ctx_size_in = context.len() as u32;
        }
        // SAFETY: the program is open, and every buffer is as long as its size says.
        let answer = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
        if answer < 0 {
            return Err(io::Error::from_raw_os_error(-answer));
        }
        let length = options.data_size_out as usize;
        Ok(Ran { returned: options.retval, packet: &self.out[..length] })
    }
}
