// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries the policy's decisions out in an unmodified Linux kernel: loads the BPF
//! programs, attaches them, writes the configuration, reads what they count.

pub mod address;
mod addresses;
pub mod again;
pub mod agent;
pub mod array;
pub mod backlog;
mod bpffs;
pub mod by_socket;
pub mod cgroup;
pub mod clock;
pub mod configuration;
pub mod control;
pub mod counters;
mod dump;
pub mod error;
pub mod guard;
mod guarded;
pub mod interfaces;
pub mod key;
pub mod link;
pub mod local_routes;
pub mod memory;
mod netlink;
pub mod network;
mod networks;
pub mod per_cpu;
pub mod pins;
pub mod plain;
pub mod plan;
pub mod police;
pub mod programs;
pub mod refusals;
pub mod rehearsal;
pub mod resized;
pub mod route;
pub mod shed;
pub mod sock_diag;
pub mod sockets;
pub mod speaks;
mod table;
pub mod test_run;
mod ties;
pub mod time_wait;
pub mod verifier;

/// The types shared with the programs, as `bpf/layout.h` has them.
#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, unused_imports, dead_code)]
pub mod raw {
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

pub use error::{Error, Result};
