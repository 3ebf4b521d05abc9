// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals that a thread waits for.

use nix::sys::signal::{SigSet, Signal};

use crate::failure::Failure;

/// Blocks these, before any thread exists, so that the one that waits for them is the only one to see them.
pub(crate) fn block(signals: impl IntoIterator<Item = Signal>) -> Result<SigSet, Failure> {
    let signals: SigSet = signals.into_iter().collect();
    signals.thread_block().map_err(|errno| Failure::Signals(errno.into()))?;
    Ok(signals)
}
