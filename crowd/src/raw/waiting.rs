// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tuples in TIME-WAIT, where clients have so few that they would be used again within it.

use std::collections::{HashSet, VecDeque};

use tidegate_client::TIME_WAIT_NS;

use crate::raw::tuples::Tuple;

/// Tuples whose client closed first: for a minute nobody uses them. A RST does not end it (RFC
/// 1337).
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    held: HashSet<Tuple>,
    /// And until when, in order.
    until: VecDeque<(u64, Tuple)>,
}

impl Waiting {
    /// A tuple comes to it.
    pub(crate) fn hold(&mut self, tuple: Tuple, now_ns: u64) {
        if self.held.insert(tuple) {
            self.until.push_back((now_ns + TIME_WAIT_NS, tuple));
        }
    }

    /// Lets those go whose time has come, and shows each.
    pub(crate) fn release_due(&mut self, now_ns: u64, mut show: impl FnMut(Tuple)) {
        while let Some((_, tuple)) = self.until.pop_front_if(|(until_ns, _)| *until_ns <= now_ns) {
            self.held.remove(&tuple);
            show(tuple);
        }
    }

    #[inline]
    pub(crate) fn has(&self, tuple: Tuple) -> bool {
        !self.held.is_empty() && self.held.contains(&tuple)
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_held_for_a_minute() {
        let mut waiting = Waiting::default();
        waiting.hold(7, 5);
        waiting.hold(9, 6);
        let mut shown = Vec::new();
        waiting.release_due(TIME_WAIT_NS + 4, |tuple| shown.push(tuple));
        assert!(waiting.has(7) && waiting.has(9) && !waiting.has(8));
        waiting.release_due(TIME_WAIT_NS + 5, |tuple| shown.push(tuple));
        assert!(!waiting.has(7) && waiting.has(9));
        assert_eq!(waiting.len(), 1);
        waiting.release_due(TIME_WAIT_NS + 6, |tuple| shown.push(tuple));
        assert_eq!(waiting.len(), 0);
        assert_eq!(shown, [7, 9]);
    }
}
