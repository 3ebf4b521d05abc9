// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a run tells what it does, in either world.

use std::error::Error;
use std::time::Duration;

use tidegate_client::Progress;

use crate::point::Point;
use crate::results::ResultsError;

/// Whoever wants to know how far a run is, and what comes of it. It is called in the thread that
/// runs.
pub trait Watcher {
    /// A step begins: one of so many, counted from 1, with its name and how long it lasts. The
    /// simulator has several under way at a time, and its times are simulated.
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration);
    /// A step goes on.
    fn progress(&mut self, index: usize, progress: &Progress);
    /// A point is there. Live, the curves of a load come one after the other, as the scenario has
    /// them; simulated, the loads of a curve.
    ///
    /// # Errors
    /// When it cannot be kept: the run ends then.
    fn point(&mut self, point: &Point) -> Result<(), ResultsError>;
    /// A curve cannot be run.
    fn left_out(&mut self, curve: &str, reason: &dyn Error);
    /// A curve cannot be run from this offered load on, in multiples of capacity. To whom that makes no
    /// difference, it is left out.
    fn left_out_from(&mut self, curve: &str, _offered: f64, reason: &dyn Error) {
        self.left_out(curve, reason);
    }
}
