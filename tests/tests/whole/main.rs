// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole stories: hosts, servers, clients and the daemon, as an operator meets them. One program, so
//! that what they share is built and linked once.

mod abort;
mod accepts;
mod agent;
mod auto;
mod bad_input;
mod client_close;
mod cookies;
mod counters;
mod crash_safety;
mod crowd;
mod experiments;
mod explain;
mod explain_agrees;
mod fairness;
mod forwarding;
mod homes;
mod isolation;
mod kernel_cookies;
mod lazy;
mod mechanisms;
mod notices;
mod places;
mod police;
mod refusal_log;
mod reserv;
mod resize;
mod rst_fin;
mod rst_fin_strict;
mod shed;
mod size;
mod socket_option;
mod time_wait;
mod time_wait_both_open;
mod time_wait_close_swap_cells;
mod time_wait_duplicate;
mod time_wait_holder;
mod time_wait_left;
mod time_wait_loading;
mod time_wait_negotiated;
mod time_wait_negotiation_cells;
mod time_wait_rfc1337;
mod time_wait_scenario;
mod time_wait_stripped;
mod tools;
