// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stories that are told one at a time: they measure what a server takes or a client waits for, or
//! count what a segment that comes too late would change.

mod abort;
mod accepts;
mod counters;
mod crowd;
mod experiments;
mod fairness;
mod isolation;
mod shed;
mod size;
mod time_wait_close_swap_cells;
mod time_wait_holder;
mod time_wait_negotiation_cells;
mod time_wait_scenario;
