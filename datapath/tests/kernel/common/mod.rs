// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the datapath's tests share: programs run on packets of our choosing.

pub mod agreement;
pub mod cookie;
pub mod pair;
pub mod scene;
pub mod segment;
pub mod strict;
pub mod wire;

use std::io;
use std::os::fd::BorrowedFd;

use tidegate_datapath::test_run;

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
        let (returned, length) = test_run::run(program, context, packet, &mut self.out)?;
        Ok(Ran { returned, packet: &self.out[..length] })
    }
}
