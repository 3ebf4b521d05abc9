// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands for answers inside the kernel in a build without them.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// There is none.
#[derive(Debug)]
pub(crate) enum InKernel {}

impl InKernel {
    pub(crate) fn answering(_reply: &[u8]) -> io::Result<Self> {
        Err(io::Error::other("this build is without the feature in-kernel"))
    }

    pub(crate) fn hand_over(&self, _stream: &impl AsFd) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn silent_for(&self, _stream: &impl AsFd) -> Option<Duration> {
        match *self {}
    }

    pub(crate) fn forget(&self, _stream: &impl AsFd) {
        match *self {}
    }

    pub(crate) fn replies(&mut self) -> (u64, u64) {
        match *self {}
    }
}
