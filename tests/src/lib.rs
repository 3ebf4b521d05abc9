// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the stories have in common: a stage of two network namespaces, and the real
//! programs that play on it. A story tells one claim of the project, start to end.

mod books;
pub mod bpf;
mod burst;
mod chain;
mod client;
mod closers;
mod counted;
mod dialed;
mod listener;
mod nginx;
mod option;
mod raw_end;
mod routed;
pub mod slow;
mod stage;
mod tidegate;
mod tidelab;
pub mod waits;
pub mod wire;

pub use books::{Books, Drops};
pub use burst::{Attempt, Spoofed, burst, more_addresses};
pub use chain::Chain;
pub use client::{
    Answer, CURL_REFUSED, CURL_RESET, CURL_TIMEOUT, Curl, CurlSaw, Plain, Seen, Withheld, fetch,
    fill,
};
pub use closers::{
    AFAR, First, close_first, close_first_from, connect_from, end_first_from, kernel_time_wait,
    serve_closers,
};
pub use counted::{Counted, guard_of, packets, packets_with};
pub use dialed::{Dialed, Fate, dial};
pub use listener::{
    Stalled, closing, connections, defer_accept, half_open, listen_queue, until, until_sent_again,
};
pub use nginx::Nginx;
pub use option::{option_of, set_option};
pub use raw_end::{RawEnd, our_option};
pub use routed::{
    AsToday, NAMES_CLIENT, NAMES_CLIENT_HTTP, NAMES_SERVER, Passed, Routed, TODAY, Tally, Visited,
};
pub use stage::{CLIENT_V4, CLIENT_V6, SERVER_V4, SERVER_V6, Stage, bridge};
pub use tidegate::{Guard, LOOKS_BY, Refused, copy_for_all, run_to_end, status, tidegate_program};
pub use tidelab::{serve, tidelab_program};

pub use tidegate_lab::skip_without_root;
