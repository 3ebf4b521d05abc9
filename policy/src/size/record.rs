// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The burst in what was seen of a listening socket.

/// What was seen of a listening socket since the look before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// How long that is, in s.
    pub lasted_s: f64,
    /// SYNs that came.
    pub arrived: u64,
    /// SYNs of them that found no room.
    pub dropped: u64,
    /// Connections that left both queues.
    pub drained: u64,
    /// Connections that wait for accept() now.
    pub queued: u32,
}

/// A queue shorter than this is one that a server below its capacity has.
const BUSY_PLACES: u32 = 8;
/// Fewer connections than this tell no rate.
const DRAINED_LEAST: u64 = 100;
/// A burst that needs no more places than these is none: every server's queue has them.
const BURST_PLACES: f64 = 16.0;

/// What was seen of a listening socket, look by look.
#[derive(Clone, Debug, Default)]
pub struct Record {
    looks: Vec<Look>,
}

/// The largest burst of a record, and the drain meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Connections that the server takes a second while any wait.
    pub drain_per_s: f64,
    /// Connections that came a second in the burst.
    pub burst_per_s: f64,
    /// How long it lasted, in s.
    pub burst_s: f64,
    /// Connections that came a second before and after.
    pub calm_per_s: f64,
    /// Connections that waited for accept() at most.
    pub queued: u32,
    /// SYNs that found no room, and came again as others.
    pub dropped: u64,
    /// Whether the burst was over when the record ended.
    pub has_ended: bool,
}

/// Why a record recommends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBurst {
    /// Nobody waited long enough.
    #[error("too calm to recommend anything: {arrived} SYNs came, and {queued} waited at most")]
    TooCalm {
        /// SYNs in all.
        arrived: u64,
        /// Connections that waited for accept() at most.
        queued: u32,
    },
}

impl Record {
    /// Adds what was seen next.
    pub fn add(&mut self, look: Look) {
        self.looks.push(look);
    }

    fn too_calm(&self) -> NoBurst {
        let arrived = self.looks.iter().map(|look| look.arrived).sum();
        NoBurst::TooCalm { arrived, queued: self.queued() }
    }

    fn queued(&self) -> u32 {
        self.looks.iter().map(|look| look.queued).max().unwrap_or(0)
    }

    /// What the server takes a second while any wait: from look to look at which some did.
    fn drain_per_s(&self) -> Option<f64> {
        let waits = |look: &Look| look.queued >= BUSY_PLACES;
        let pairs = self.looks.windows(2).filter(|pair| pair.iter().all(waits));
        let (drained, lasted_s) = pairs.fold((0, 0.0), |(drained, lasted_s), pair| {
            (drained + pair[1].drained, lasted_s + pair[1].lasted_s)
        });
        (drained >= DRAINED_LEAST).then(|| drained as f64 / lasted_s)
    }

    /// The looks of the burst for which a queue without end would have been the longest, with its
    /// length: by Lindley's recursion, which is the largest of what came in any window less what the
    /// server takes in it.
    fn longest(&self, drain_per_s: f64) -> (std::ops::Range<usize>, f64) {
        let (mut queue, mut from) = (0.0, 0);
        let (mut longest, mut burst) = (0.0, 0..0);
        for (at, look) in self.looks.iter().enumerate() {
            if queue == 0.0 {
                from = at;
            }
            queue = (queue + look.arrived as f64 - drain_per_s * look.lasted_s).max(0.0);
            if queue > longest {
                (longest, burst) = (queue, from..at + 1);
            }
        }
        (burst, longest)
    }

    /// The largest burst.
    ///
    /// # Errors
    /// [`NoBurst`], where there was none to speak of.
    pub fn burst(&self) -> Result<Seen, NoBurst> {
        let drain_per_s = self.drain_per_s().ok_or_else(|| self.too_calm())?;
        let (burst, longest) = self.longest(drain_per_s);
        if longest < BURST_PLACES {
            return Err(self.too_calm());
        }
        let (within, around): (Vec<_>, Vec<_>) =
            self.looks.iter().enumerate().partition(|(at, _)| burst.contains(at));
        let rate = |looks: &[(usize, &Look)]| {
            let arrived: u64 = looks.iter().map(|(_, look)| look.arrived).sum();
            let lasted_s: f64 = looks.iter().map(|(_, look)| look.lasted_s).sum();
            (if lasted_s > 0.0 { arrived as f64 / lasted_s } else { 0.0 }, lasted_s)
        };
        let (burst_per_s, burst_s) = rate(&within);
        let (calm_per_s, _) = rate(&around);
        let has_ended = burst.end < self.looks.len();
        let dropped = self.looks.iter().map(|look| look.dropped).sum();
        let queued = self.queued();
        Ok(Seen { drain_per_s, burst_per_s, burst_s, calm_per_s, queued, dropped, has_ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that takes 1,000 a second, looked at ten times a second, with these arrivals.
    fn record(arrivals: &[u64]) -> Record {
        let mut record = Record::default();
        let mut queued = 0;
        for arrived in arrivals {
            let drained = (queued + arrived).min(100);
            queued = queued + arrived - drained;
            let (arrived, queued) = (*arrived, queued as u32);
            record.add(Look { lasted_s: 0.1, arrived, dropped: 0, drained, queued });
        }
        record
    }

    #[test]
    fn the_largest_burst_is_found_with_the_drain_and_the_calm() {
        // Two bursts: 300 more than are taken, and 800 more.
        let mut arrivals = vec![50; 20];
        arrivals.extend([200, 200, 200]);
        arrivals.extend([50; 20]);
        arrivals.extend([300, 300, 300, 300]);
        arrivals.extend([50; 20]);
        let seen = record(&arrivals).burst().unwrap();
        assert!((seen.drain_per_s - 1000.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_per_s - 3000.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_s - 0.4).abs() < 1e-9, "{seen:?}");
        let calm_per_s = (60.0 * 50.0 + 600.0) / 6.3;
        assert!((seen.calm_per_s - calm_per_s).abs() < 1e-6, "{seen:?}");
        assert_eq!((seen.queued, seen.has_ended), (800, true));
    }

    #[test]
    fn a_burst_that_goes_on_is_told() {
        let mut arrivals = vec![50; 5];
        arrivals.extend([300; 10]);
        assert!(!record(&arrivals).burst().unwrap().has_ended);
    }

    #[test]
    fn a_server_that_nobody_waits_for_tells_nothing() {
        let calm = record(&[90; 50]);
        assert_eq!(calm.burst(), Err(NoBurst::TooCalm { arrived: 4500, queued: 0 }));
        let said = calm.burst().unwrap_err().to_string();
        assert!(said.starts_with("too calm"), "{said}");
        assert!(Record::default().burst().is_err());
        // A few wait now and then, as before any server.
        assert!(record(&[103, 90, 103, 90, 103]).burst().is_err());
    }
}
