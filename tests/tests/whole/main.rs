// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole stories: hosts, servers, clients and the daemon, as an operator meets them. One program, so
//! that what they share is built and linked once.

mod alone;
mod beside;
