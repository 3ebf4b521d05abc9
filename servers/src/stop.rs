// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a server is told to stop.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::ServerError;

/// Says to all threads of a server that it is over.
#[derive(Debug)]
pub(crate) struct Stop {
    is_over: AtomicBool,
    /// Readable from then on: nobody reads it.
    event: EventFd,
}

impl Stop {
    /// # Errors
    /// [`ServerError::Events`].
    pub(crate) fn new() -> Result<Self, ServerError> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(ServerError::events("create an eventfd"))?;
        Ok(Self { is_over: AtomicBool::new(false), event })
    }

    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It can only fail when it has been called 2^64 − 2 times.
        let _ = self.event.write(1);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Tells all threads of a server to stop when the one that has it ends, however it ends: one that
/// fails or panics must not leave the others as if nothing had happened.
pub(crate) struct StopsAll<'a>(pub &'a Stop);

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Ends a running [`Server`](crate::Server) from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(pub(crate) Arc<Stop>);

impl Stopper {
    /// Has the server return from [`Server::run`](crate::Server::run) soon: connections are closed
    /// as they are.
    pub fn stop(&self) {
        self.0.stop();
    }
}
