// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs in the kernel: loaded, run on packets of our choosing, and held against the native
//! policy. One test program, so that what they share is built once and the tests run side by side.

mod accepts_agreement;
mod ack;
mod agreement;
mod cable;
mod claims;
mod clock;
mod common;
mod cookies;
mod destinations;
mod exempt;
mod fin;
mod forwarding;
mod half_open;
mod hand;
mod inside;
mod keys;
mod listener;
mod local_routes;
mod malformed;
mod malformed_ends;
mod malformed_notices;
mod notice_agreement;
mod obeyed;
mod packets;
mod pins;
mod share_agreement;
mod shed;
mod shed_agreement;
mod socket_option;
mod standing;
mod time_wait_agreement;
mod verifier;
mod way_back;
