// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulator says, against equations, papers and itself. One test program, so that it is
//! built once and the tests run side by side.

mod accepts;
mod auto;
mod away;
mod closing;
mod conserved;
mod cores;
mod driver;
mod exact;
mod fairness;
mod formulas;
mod lazy;
mod pages;
mod ports;
mod reserv;
mod shed;
mod size;
mod stories;
mod time_wait;
