// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values as maps hold them: plain C structures, to bytes and back.

use crate::raw::*;
use tidegate_policy::raw::*;

/// A type that is nothing but its bytes.
///
/// # Safety
///
/// Every bit pattern must be a value, and there must be no padding: the headers are
/// compiled with `-Wpadded`.
pub unsafe trait Plain {}

macro_rules! plain {
    ($($type:ty),+) => {
        // SAFETY: integers, or bindgen's structures of integers from -Wpadded headers.
        $(unsafe impl Plain for $type {})+
    };
}

plain!(u32, u64, tg_control, tg_config, tg_claims, tg_counters, tg_listener_row, tg_request_row);
plain!(tg_case, tg_answers, tg_shed_case, tg_shed_answers, tg_tw_case, tg_tw_answers);
plain!(tg_notice_case, tg_notice_answers, tg_slot_key);
plain!(tg_shed_block, tg_overload, tg_shed_state, tg_shed_monitor, tg_network, tg_limit);
plain!(tg_tw_rules, tg_held_block, tg_leaving, tg_agreement, tg_tuple, tg_resized);
plain!(tg_refusal, tg_agent, tg_obeyed, tg_avoided, tg_target);
plain!(tg_accepts, tg_accepts_case, tg_accepts_answers);
plain!(tg_speaks, tg_inside, tg_inside_row);
plain!(tg_share, tg_share_cell, tg_share_case, tg_share_answers);

// SAFETY: an array has no padding of its own.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The bytes of a value.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a Plain value is as many readable bytes as its size.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

/// The bytes of a value, to be written.
pub fn bytes_of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: a Plain value is as many bytes as its size, and any bytes are a value.
    unsafe { std::slice::from_raw_parts_mut((&raw mut *value).cast(), size_of::<T>()) }
}

/// A value from its bytes, which may lie anywhere. Panics where there are too few.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "fewer bytes than the type has");
    // SAFETY: long enough, and every bit pattern is a value of a Plain type.
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}
