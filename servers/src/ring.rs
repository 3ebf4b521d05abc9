// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An `io_uring(7)` used to watch descriptors: each is told of once, in memory shared with the
//! kernel.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use nix::libc;

use crate::error::ServerError;
use crate::events::{Interest, Told};

/// Requests that go to the kernel in one call.
const REQUESTS_MAX: u32 = 1024;
/// Of what is told; when more comes, the kernel keeps it until there is room.
const COMPLETIONS_MAX: u32 = 16 * 1024;
/// Of requests whose completion tells nothing. No connection has it, nor a listening socket.
const NOTHING: u64 = u64::MAX;

/// When the kernel writes what it has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completions {
    /// When it is asked.
    AtCalls,
    /// Whenever the thread is in the kernel, for whatever reason.
    Anytime,
}

/// The ring of one thread.
pub(crate) struct Ring {
    ring: IoUring,
    completions: Completions,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("completions", &self.completions).finish_non_exhaustive()
    }
}

impl Ring {
    /// # Errors
    /// [`ServerError::NoIoUring`].
    pub(crate) fn new(completions: Completions) -> Result<Self, ServerError> {
        let mut builder = IoUring::builder();
        // Disabled until the thread that will use it says so: no other may, which saves locks.
        builder.setup_r_disabled().setup_single_issuer().setup_cqsize(COMPLETIONS_MAX).dontfork();
        match completions {
            Completions::AtCalls => builder.setup_defer_taskrun(),
            // No interrupt to say that there is something: the next system call will do.
            Completions::Anytime => builder.setup_coop_taskrun(),
        };
        let ring =
            builder.build(REQUESTS_MAX).map_err(|source| ServerError::NoIoUring { source })?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            let source = io::ErrorKind::Unsupported.into();
            return Err(ServerError::NoIoUring { source });
        }
        Ok(Self { ring, completions })
    }

    /// The calling thread will be the one that uses it.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// Watches a descriptor until it is told of. The descriptor must stay open until then, or
    /// until [`Ring::forget`].
    pub(crate) fn watch(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let flags = match interest {
            Interest::Read => libc::POLLIN | libc::POLLRDHUP,
            Interest::Write => libc::POLLOUT,
        };
        let request = opcode::PollAdd::new(Fd(fd.as_raw_fd()), flags as u32).build();
        self.request(&request.user_data(token))
    }

    /// Watches it no longer. A file that is watched stays open although its descriptor is closed.
    pub(crate) fn forget(&mut self, token: u64) -> io::Result<()> {
        // It may not have been handed over yet; once its descriptor is closed, the number may be
        // another's.
        self.submit()?;
        self.request(&opcode::PollRemove::new(token).build().user_data(NOTHING))?;
        self.submit()
    }

    /// Hands over requests, if there are any. What they tell at once is there afterwards.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            Err(error) if is_passing(&error) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Hands over requests and waits until something is told, at most so long.
    pub(crate) fn wait(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        let waited = match at_most {
            None => self.ring.submit_and_wait(1),
            Some(time) => {
                let timeout = Timespec::from(time);
                let arguments = SubmitArgs::new().timespec(&timeout);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        match waited {
            Err(error) if is_passing(&error) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Shows what was told since the last time. No call into the kernel.
    pub(crate) fn completed(&mut self, mut show: impl FnMut(Told)) {
        for entry in self.ring.completion() {
            let result = entry.result();
            if entry.user_data() == NOTHING || result == -libc::ECANCELED {
                continue;
            }
            // Anything else that failed is shown: whoever uses the descriptor will see why.
            let flags = u32::try_from(result).unwrap_or(0);
            show(Told {
                token: entry.user_data(),
                client_left: flags & libc::POLLRDHUP as u32 != 0,
            });
        }
    }

    fn request(&mut self, request: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: requests to watch and to forget point to no memory.
            if unsafe { self.ring.submission().push(request) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }
}

/// Time is over, a signal came, or completions must be taken before requests are.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}
