// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Crowds against a real kernel, as it counts them and on the wire.

mod common;
mod outcomes;
mod profiles;
mod raw;
mod stock;
mod time_wait;
mod visits;
