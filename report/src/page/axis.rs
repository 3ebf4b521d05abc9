// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Axes: where a number stands, and which numbers are written beside.

/// A scale from numbers to places in a drawing.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    log: bool,
    from: f64,
    to: f64,
    /// Where `from` and `to` are drawn.
    start: f64,
    end: f64,
    /// Numbers with a label, rising.
    pub ticks: Vec<f64>,
}

/// Beyond these, differences of numbers overflow or vanish.
const LARGEST: f64 = 1e300;
const SMALLEST: f64 = 1e-300;

/// Whether an axis has a place for a number.
pub(super) fn drawable(number: f64, log: bool) -> bool {
    number.is_finite() && number.abs() <= LARGEST && (!log || number >= SMALLEST)
}

impl Axis {
    /// From zero, or below it if a number is, to a little above the largest.
    pub fn linear(numbers: &[f64], about_ticks: usize) -> Self {
        let smallest = numbers.iter().copied().fold(0.0, f64::min);
        let mut largest = numbers.iter().copied().fold(0.0, f64::max);
        if largest - smallest < SMALLEST {
            largest = smallest + 1.0;
        }
        let step = nice_step((largest - smallest) / about_ticks as f64);
        // Labels stand on whole steps; the axis ends with the last one above the numbers.
        let first = (smallest / step).floor();
        let last = (largest / step - 1e-9).ceil();
        let count = (last - first).clamp(1.0, 100.0) as u32;
        let ticks: Vec<f64> = (0..=count).map(|i| (first + f64::from(i)) * step).collect();
        Self {
            log: false,
            from: first * step,
            to: *ticks.last().unwrap_or(&largest),
            start: 0.0,
            end: 1.0,
            ticks,
        }
    }

    /// From a round number below the smallest to one above the largest; all numbers are positive.
    pub fn logarithmic(numbers: &[f64]) -> Self {
        let smallest = numbers.iter().copied().fold(LARGEST, f64::min).max(SMALLEST);
        let largest = numbers.iter().copied().fold(SMALLEST, f64::max).max(smallest);
        let decades = (largest / smallest).log10();
        let (mut low, mut high) = (smallest.log10().floor(), largest.log10().ceil());
        if high <= low {
            high = low + 1.0;
        }
        let factors: &[f64] = if decades < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let stride = ((high - low) / 7.0).ceil().max(1.0);
        low = (low / stride).floor() * stride;
        let mut ticks = Vec::new();
        let mut exponent = low;
        while exponent <= high + stride / 2.0 {
            ticks.extend(factors.iter().map(|factor| factor * 10f64.powf(exponent)));
            exponent += stride;
        }
        // Only as far out as the numbers reach.
        let below = ticks.iter().rposition(|tick| *tick <= smallest * (1.0 + 1e-9)).unwrap_or(0);
        let above = ticks
            .iter()
            .position(|tick| *tick >= largest * (1.0 - 1e-9))
            .unwrap_or(ticks.len() - 1)
            .max(below + 1)
            .min(ticks.len() - 1);
        // Fewer than three labels do not show that the axis is logarithmic.
        let below = below.min(above.saturating_sub(2));
        let ticks = ticks[below..=above].to_vec();
        let (from, to) = (ticks[0].min(smallest), ticks[ticks.len() - 1].max(largest));
        Self { log: true, from, to, start: 0.0, end: 1.0, ticks }
    }

    /// The same axis, drawn between two places.
    pub fn drawn(self, start: f64, end: f64) -> Self {
        Self { start, end, ..self }
    }

    /// Where a number stands; what lies beyond the axis stands at its end.
    pub fn place(&self, number: f64) -> f64 {
        let share = self.share(number);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let place = self.start + share * (self.end - self.start);
        (place * 100.0).round() / 100.0
    }

    /// Whether the axis reaches as far as a number.
    pub fn has(&self, number: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.share(number))
    }

    /// How far along the axis a number is: from 0 to 1, or beyond.
    fn share(&self, number: f64) -> f64 {
        if self.log {
            (number.max(SMALLEST) / self.from).log10() / (self.to / self.from).log10()
        } else {
            (number - self.from) / (self.to - self.from)
        }
    }

    /// A linear axis of offered loads ends with the last load, not with the next tick.
    pub fn cut_at(mut self, last: f64) -> Self {
        self.ticks.retain(|tick| *tick <= last * (1.0 + 1e-9));
        self.to = last;
        self
    }
}

/// 1, 2 or 5 times a power of ten, at least as large.
fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::number::Unit;

    #[test]
    fn labels_stand_on_round_numbers() {
        assert_eq!(Axis::linear(&[3.0, 940.0], 5).ticks, [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(Axis::linear(&[0.0], 5).ticks.first(), Some(&0.0));
        assert_eq!(Axis::linear(&[-30.0, 50.0], 4).ticks, [-40.0, -20.0, 0.0, 20.0, 40.0, 60.0]);
        assert_eq!(
            Axis::logarithmic(&[0.3, 4000.0]).ticks,
            [0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0]
        );
        let close = Axis::logarithmic(&[30.0, 80.0]).ticks;
        assert!(close.len() >= 3 && close[0] <= 30.0, "{close:?}");
        assert_eq!(Axis::logarithmic(&[6.0]).ticks, [2.0, 5.0, 10.0]);
    }

    /// Of two alike one would say another number than it stands at.
    #[test]
    fn no_two_labels_of_an_axis_are_alike() {
        use Unit::{Bytes, Count, Load, Ms, PerSecond, Ratio, Seconds, Share};
        for unit in [PerSecond, Ms, Seconds, Share, Count, Bytes, Ratio, Load] {
            for exponent in -900..900 {
                let largest = 10f64.powf(f64::from(exponent) / 60.0);
                for axis in [
                    Axis::linear(&[largest], 4),
                    Axis::linear(&[largest, -largest / 3.0], 5),
                    Axis::logarithmic(&[largest]),
                    Axis::logarithmic(&[largest, largest * 3e4]),
                ] {
                    let labels: Vec<_> = axis.ticks.iter().map(|tick| unit.tick(*tick)).collect();
                    let differ = labels.iter().collect::<BTreeSet<_>>().len();
                    assert_eq!(differ, labels.len(), "{largest}: {labels:?}");
                }
            }
        }
    }

    #[test]
    fn any_numbers_have_a_place() {
        for numbers in [&[1e300, -1e300][..], &[1e-300, 1e300], &[5e-324], &[1e-300], &[7.0], &[]] {
            for axis in [
                Axis::linear(numbers, 5),
                Axis::logarithmic(
                    &numbers.iter().copied().filter(|n| drawable(*n, true)).collect::<Vec<_>>(),
                ),
            ] {
                assert!(axis.ticks.len() < 110, "{axis:?}");
                let axis = axis.drawn(0.0, 100.0);
                for number in numbers {
                    let place = axis.place(*number);
                    assert!((0.0..=100.0).contains(&place), "{number} at {place} on {axis:?}");
                }
            }
        }
    }
}
