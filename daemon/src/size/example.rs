// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guards, their sockets and what these count, for the tests of whoever watches them.

use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::raw::tg_listener_row;
use tidegate_policy::raw::tg_counters;

use super::count::{Count, Under};

/// Packets by reason and verdict.
pub type Packets = [(u32, u32, u64)];

/// What a socket has counted.
pub fn counted(packets: &Packets) -> Count {
    counted_at(&tg_listener_row::default(), packets)
}

/// What this one has.
pub fn counted_at(row: &tg_listener_row, packets: &Packets) -> Count {
    Count::of(&[under(&Guarded::default(), packets)], row)
}

/// What one has under a guard.
pub fn under<'a>(guarded: &'a Guarded, packets: &Packets) -> Under<'a> {
    let mut counted = tg_counters::default();
    for (reason, verdict, count) in packets {
        counted.packets[*reason as usize][*verdict as usize] = *count;
    }
    Under { guarded, counted }
}

/// Guards of port 443.
pub fn guards<const N: usize>(addresses: [Option<&str>; N]) -> Vec<(u32, Guarded)> {
    let address = |address: &str| address.parse().unwrap();
    let guarded = |of: Option<&str>| {
        let address = of.map(address);
        Guarded { address, port: 443, ..Guarded::default() }
    };
    (0..).zip(addresses.map(guarded)).collect()
}

/// A socket on that port.
pub fn listening_on(address: [u8; 4]) -> tg_listener_row {
    let addr = [u32::from_ne_bytes(address), 0, 0, 0];
    tg_listener_row { addr, port: 443, ..Default::default() }
}
