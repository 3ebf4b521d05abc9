// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stories that are told beside each other: each brings its own hosts, and none minds another's load.

mod agent;
mod auto;
mod bad_input;
mod client_close;
mod cookies;
mod counters;
mod crash_safety;
mod explain;
mod explain_agrees;
mod forwarding;
mod homes;
mod isolation;
mod kernel_cookies;
mod lazy;
mod mechanisms;
mod metrics;
mod notices;
mod packaging;
mod places;
mod police;
mod refusal_log;
mod reserv;
mod resize;
mod rst_fin;
mod rst_fin_strict;
mod socket_option;
mod time_wait;
mod time_wait_both_open;
mod time_wait_duplicate;
mod time_wait_left;
mod time_wait_loading;
mod time_wait_negotiated;
mod time_wait_rfc1337;
mod time_wait_stripped;
mod tools;
