// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An `io_uring(7)` used to watch descriptors: each is told of once, in memory shared with the
//! kernel.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use nix::libc;

use crate::error::ServerError;
use crate::events::{Interest, Told};
use crate::half_closed::HalfClosed;

/// Requests that go to the kernel in one call.
const REQUESTS_MAX: u32 = 1024;
/// Of what is told; when more comes, the kernel keeps it until there is room.
const COMPLETIONS_MAX: u32 = 16 * 1024;
/// Of requests whose completion tells nothing. No connection has it, nor a listening socket.
const NOTHING: u64 = u64::MAX;
/// The same, of the watch for room in sockets of clients that have closed their side.
const HALF_CLOSED: u64 = u64::MAX - 1;

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
    /// Descriptors that are watched for room to send in, by token.
    senders: HashMap<u64, RawFd>,
    half_closed: HalfClosed,
    /// Whether the ring watches `half_closed`.
    is_watching: bool,
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
        let half_closed = HalfClosed::new().map_err(|source| ServerError::NoIoUring { source })?;
        Ok(Self { ring, completions, senders: HashMap::new(), half_closed, is_watching: false })
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
        if interest == Interest::Write {
            self.senders.insert(token, fd.as_raw_fd());
        }
        let request = opcode::PollAdd::new(Fd(fd.as_raw_fd()), flags as u32).build();
        self.request(&request.user_data(token))
    }

    /// Watches it no longer. A file that is watched stays open although its descriptor is closed.
    pub(crate) fn forget(&mut self, token: u64) -> io::Result<()> {
        self.senders.remove(&token);
        if self.half_closed.forget(token) {
            return Ok(());
        }
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

    /// Shows what was told since the last time. No call into the kernel, but where clients that
    /// have closed their side are still sent to.
    pub(crate) fn completed(&mut self, mut show: impl FnMut(Told)) -> io::Result<()> {
        let Self { ring, senders, half_closed, is_watching, .. } = self;
        for entry in ring.completion() {
            let (token, result) = (entry.user_data(), entry.result());
            if token == NOTHING || result == -libc::ECANCELED {
                continue;
            }
            if token == HALF_CLOSED {
                *is_watching = false;
                for token in half_closed.take_ready() {
                    show(Told { token, client_left: true });
                }
                continue;
            }
            // Anything else that failed is shown: whoever uses the descriptor will see why.
            let flags = u32::try_from(result).unwrap_or(0);
            let client_left = flags & libc::POLLRDHUP as u32 != 0;
            if let Some(fd) = senders.remove(&token)
                && flags == libc::POLLRDHUP as u32
            {
                // SAFETY: open until it is told of or forgotten: see `watch`.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                half_closed.watch(fd, token)?;
            } else {
                show(Told { token, client_left });
            }
        }
        self.watch_half_closed()
    }

    fn watch_half_closed(&mut self) -> io::Result<()> {
        if self.is_watching || self.half_closed.is_empty() {
            return Ok(());
        }
        self.is_watching = true;
        let fd = Fd(self.half_closed.as_fd().as_raw_fd());
        let request = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
        self.request(&request.user_data(HALF_CLOSED))
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
