// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a round trip takes, and so how long to wait for one (RFC 6298).

use super::MS_NS;
use crate::os::Os;

/// Smoothed round trip and its variation, in µs; nothing measured while the first is 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed_us: u32,
    variation_us: u32,
}

impl RoundTrip {
    pub(super) fn measured(&mut self, took_ns: u64) {
        let took_us = (took_ns / 1000).clamp(1, u64::from(u32::MAX / 8)) as u32;
        if self.smoothed_us == 0 {
            self.smoothed_us = took_us;
            self.variation_us = took_us / 2;
        } else {
            let off_us = self.smoothed_us.abs_diff(took_us);
            self.variation_us = (3 * self.variation_us + off_us) / 4;
            self.smoothed_us = ((7 * u64::from(self.smoothed_us) + u64::from(took_us)) / 8) as u32;
        }
    }

    /// The retransmission timeout after so many that were in vain. As in Linux, the least timeout
    /// is added to the round trip, not the least of the sum.
    pub(super) fn timeout_ns(&self, os: &Os, backoff: u8) -> u64 {
        let once_us = if self.smoothed_us == 0 {
            u64::from(os.rto_initial_ms) * 1000
        } else {
            let spread_us = (4 * u64::from(self.variation_us)).max(least_us(os));
            u64::from(self.smoothed_us) + spread_us
        };
        let backed_off_us = once_us << backoff.min(16);
        (backed_off_us * 1000).min(u64::from(os.rto_max_ms) * MS_NS)
    }

    /// When to probe for a lost tail of so many segments (RFC 8985, section 7.2), at the latest
    /// when the timeout would be.
    pub(super) fn probe_ns(&self, os: &Os, is_single: bool) -> u64 {
        let timeout_ns = self.timeout_ns(os, 0);
        if self.smoothed_us == 0 {
            return timeout_ns.min(1000 * MS_NS);
        }
        let for_delayed_ack_us = if is_single { least_us(os) } else { 2000 };
        (2 * u64::from(self.smoothed_us) + for_delayed_ack_us).saturating_mul(1000).min(timeout_ns)
    }
}

fn least_us(os: &Os) -> u64 {
    u64::from(os.rto_min_ms) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_timeout_is_added_to_the_round_trip() {
        let linux = Os::linux();
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.timeout_ns(linux, 0), 3000 * MS_NS);
        round_trip.measured(10 * MS_NS);
        assert_eq!(round_trip.timeout_ns(linux, 0), 210 * MS_NS);
        assert_eq!(round_trip.timeout_ns(linux, 3), 1680 * MS_NS);
        assert_eq!(round_trip.timeout_ns(linux, 200), 120_000 * MS_NS);
        assert_eq!(round_trip.probe_ns(linux, true), 210 * MS_NS);
        assert_eq!(round_trip.probe_ns(linux, false), 22 * MS_NS);
    }

    #[test]
    fn a_long_round_trip_is_given_its_variation() {
        let mut round_trip = RoundTrip::default();
        round_trip.measured(200 * MS_NS);
        assert_eq!(round_trip.timeout_ns(Os::linux(), 0), 600 * MS_NS);
        round_trip.measured(200 * MS_NS);
        assert_eq!(round_trip.timeout_ns(Os::linux(), 0), 500 * MS_NS);
    }
}
