// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a SYN tells of the system that it is from.

use crate::raw;

/// Whether the system sends its SYN again on a RST, by what the SYN looks like: `hops` are those that
/// it has left (IPv4's time to live), `tcp_header_bytes` are with its options.
#[must_use]
pub fn sends_again(hops: u8, tcp_header_bytes: u32) -> bool {
    // SAFETY: the function reads nothing but its arguments.
    unsafe { raw::tg_native_system_sends_again(hops.into(), tcp_header_bytes) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 bytes and 12 of options (MSS, window scale, SACK), at 128 hops and 20 networks away; 20 of
    /// options with timestamps; 255 hops, as of Solaris.
    #[test]
    fn windows_is_known_by_its_hops_and_by_having_no_timestamps() {
        assert!(sends_again(128, 32) && sends_again(108, 32));
        assert!(!sends_again(128, 40) && !sends_again(64, 32));
        assert!(!sends_again(255, 32) && !sends_again(44, 40));
    }
}
