// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process's limits, raised as far as they go.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the number of descriptors that this process may have towards `needed`; root's as far as
/// that. Where it does not suffice, a crowd's attempts fail with EMFILE and its outcome says so.
pub fn allow_descriptors(needed: u64) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if soft >= needed {
        return;
    }
    // Only root may raise the hard limit.
    if needed <= hard || setrlimit(Resource::RLIMIT_NOFILE, needed, needed).is_err() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard);
    }
}

/// Has the kernel wake this thread when it asked to be, rather than up to 50 µs later.
pub(crate) fn wake_punctually() {
    let _ = nix::sys::prctl::set_timerslack(1);
}
