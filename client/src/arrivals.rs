// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When attempts start, decided before the first one does.

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1};

use crate::trace::Trace;

/// A schedule of starts, in ns since the beginning, never falling. Only a trace as it was recorded
/// ever ends.
///
/// The same seed gives the same schedule on every machine.
#[derive(Clone, Debug)]
pub struct Arrivals {
    starts: Starts,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Starts {
    Drawn {
        gap_ns: f64,
        /// Fractions of a nanosecond are kept, so that a rate holds over days.
        now_ns: f64,
        chance: Option<Box<ChaCha8Rng>>,
    },
    Recorded {
        trace: Trace,
        next: usize,
        scale: Option<Scale>,
    },
}

/// What makes a trace's times those of another rate.
#[derive(Clone, Copy, Debug)]
struct Scale {
    factor: f64,
    /// How long the trace lasts, in ns of its own: a mean gap after its last start, it begins
    /// again.
    lasts_ns: f64,
}

/// What becomes of times that know one rate.
#[derive(Clone, Debug)]
enum Shape {
    Even,
    Bursts(Bursts),
    Steps { steps: Vec<Step>, now: Passed },
}

#[derive(Clone, Copy, Debug)]
struct Bursts {
    burst_ns: f64,
    silence_ns: f64,
}

/// A part of a load whose rate changes by steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// How long it lasts, in ns.
    pub lasts_ns: u64,
    /// Its rate, in multiples of the schedule's; 0 is silence.
    pub times: f64,
}

/// The step that the next start is in, and what lies before it.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    step: usize,
    /// Time, in ns.
    real_ns: f64,
    /// The same at the schedule's own rate: Σ lasts_ns × times.
    even_ns: f64,
}

impl Arrivals {
    /// One start every `1 / per_s` seconds, the first at once.
    #[must_use]
    pub fn constant(per_s: f64) -> Self {
        Self::drawn(per_s, None)
    }

    /// Starts that know nothing of each other: gaps are exponential with a mean of `1 / per_s`.
    #[must_use]
    pub fn poisson(per_s: f64, seed: u64) -> Self {
        Self::drawn(per_s, Some(Box::new(ChaCha8Rng::seed_from_u64(seed))))
    }

    fn drawn(per_s: f64, chance: Option<Box<ChaCha8Rng>>) -> Self {
        let starts = Starts::Drawn { gap_ns: 1e9 / per_s, now_ns: 0.0, chance };
        Self { starts, shape: Shape::Even }
    }

    /// A trace as it was recorded: at its own times, once.
    #[must_use]
    pub fn trace(trace: &Trace) -> Self {
        Self::recorded(trace, None)
    }

    /// A trace at another rate: its times, from its first start on, are pressed or stretched to a
    /// mean of `per_s`, and it begins again a mean gap after its last start. `None` when all its
    /// starts are at one time.
    #[must_use]
    pub fn trace_at(trace: &Trace, per_s: f64) -> Option<Self> {
        let recorded_per_s = trace.per_s()?;
        let lasts_ns = trace.times_ns().len() as f64 / recorded_per_s * 1e9;
        Some(Self::recorded(trace, Some(Scale { factor: recorded_per_s / per_s, lasts_ns })))
    }

    fn recorded(trace: &Trace, scale: Option<Scale>) -> Self {
        let starts = Starts::Recorded { trace: trace.clone(), next: 0, scale };
        Self { starts, shape: Shape::Even }
    }

    /// The same starts, pressed into bursts with nothing between them, beginning with a burst.
    /// The mean rate stays: within a burst it is `(burst + silence) / burst` times as high
    /// (Shukla, section 5.2, where silence is 5 s and bursts are 10, 20 and 40 s).
    ///
    /// Both are in ns; a silence of 0 changes nothing.
    #[must_use]
    pub fn in_bursts(self, burst_ns: u64, silence_ns: u64) -> Self {
        let bursts = Bursts { burst_ns: burst_ns.max(1) as f64, silence_ns: silence_ns as f64 };
        let shape = if silence_ns > 0 { Shape::Bursts(bursts) } else { Shape::Even };
        Self { shape, ..self }
    }

    /// The same starts at a rate that changes by steps, from the beginning on; the last step's goes
    /// on. A Poisson schedule stays one: within a step gaps are exponential.
    ///
    /// Where the last step is silence nobody comes any more: the schedule ends.
    #[must_use]
    pub fn in_steps(self, steps: &[Step]) -> Self {
        Self { shape: Shape::Steps { steps: steps.to_vec(), now: Passed::default() }, ..self }
    }
}

impl Passed {
    /// When a start is that is at `even_ns` of the schedule's own time, which never falls.
    fn place(&mut self, steps: &[Step], even_ns: f64) -> Option<f64> {
        while let Some(step) = steps.get(self.step) {
            let lasts_ns = step.lasts_ns as f64;
            let is_last = self.step + 1 == steps.len();
            let into_ns = even_ns - self.even_ns;
            if step.times > 0.0 && (is_last || into_ns < lasts_ns * step.times) {
                return Some(self.real_ns + into_ns / step.times);
            }
            self.real_ns += lasts_ns;
            self.even_ns += lasts_ns * step.times;
            self.step += 1;
        }
        None
    }
}

impl Bursts {
    fn press(self, start_ns: f64) -> f64 {
        let busy_ns = start_ns * self.burst_ns / (self.burst_ns + self.silence_ns);
        busy_ns + (busy_ns / self.burst_ns).floor() * self.silence_ns
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let start_ns = self.starts.next_ns()?;
        let start_ns = match &mut self.shape {
            Shape::Even => start_ns,
            Shape::Bursts(bursts) => bursts.press(start_ns),
            Shape::Steps { steps, now } => now.place(steps, start_ns)?,
        };
        Some(start_ns.round() as u64)
    }
}

impl Starts {
    fn next_ns(&mut self) -> Option<f64> {
        match self {
            Self::Recorded { trace, next, scale: None } => {
                let at_ns = *trace.times_ns().get(*next)?;
                *next += 1;
                Some(at_ns as f64)
            }
            Self::Recorded { trace, next, scale: Some(scale) } => {
                let times_ns = trace.times_ns();
                let (round, place) = (*next / times_ns.len(), *next % times_ns.len());
                *next += 1;
                let since_ns = (times_ns[place] - times_ns[0]) as f64;
                Some((since_ns + round as f64 * scale.lasts_ns) * scale.factor)
            }
            // A metronome has its first beat at once.
            Self::Drawn { gap_ns, now_ns, chance: None } => {
                let start_ns = *now_ns;
                *now_ns += *gap_ns;
                Some(start_ns)
            }
            // A Poisson process has its first event after a gap.
            Self::Drawn { gap_ns, now_ns, chance: Some(chance) } => {
                let share: f64 = Exp1.sample(chance);
                *now_ns += share * *gap_ns;
                Some(*now_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_metronome_keeps_its_rate() {
        let starts: Vec<u64> = Arrivals::constant(3.0).take(7).collect();
        assert_eq!(starts[0], 0);
        assert_eq!(starts[3], 1_000_000_000);
        assert_eq!(starts[6], 2_000_000_000);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let count = 200_000;
        let starts: Vec<u64> = Arrivals::poisson(1000.0, 1).take(count).collect();
        let gaps: Vec<f64> = starts.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "variance {variance}");
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let of = |seed| Arrivals::poisson(5.0, seed).take(100).collect::<Vec<_>>();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn bursts_keep_the_mean_rate_and_the_silence() {
        // Shukla, section 5.2: 10 s of burst, 5 s of silence; 10,000/s in all is 15,000/s within.
        let pressed = |arrivals: Arrivals| {
            arrivals
                .in_bursts(10 * SECOND_NS, 5 * SECOND_NS)
                .take_while(|start_ns| *start_ns < 30 * SECOND_NS)
                .collect::<Vec<u64>>()
        };
        let starts = pressed(Arrivals::constant(10_000.0));
        assert_eq!(starts.len(), 300_000);
        assert!(starts.is_sorted());
        let within = |from_s: u64, to_s: u64| {
            let span = from_s * SECOND_NS..to_s * SECOND_NS;
            starts.iter().filter(|start_ns| span.contains(start_ns)).count()
        };
        assert_eq!((within(0, 1), within(9, 10)), (15_000, 15_000));
        assert_eq!((within(10, 15), within(25, 30)), (0, 0));
        assert_eq!(within(15, 25), 150_000);
        let at_random = pressed(Arrivals::poisson(10_000.0, 3));
        assert!((at_random.len() as f64 / 300_000.0 - 1.0).abs() < 0.01);
        assert!(at_random.iter().all(|start_ns| start_ns % (15 * SECOND_NS) < 10 * SECOND_NS));
    }

    #[test]
    fn steps_have_the_rate_of_each_and_the_last_goes_on() {
        let step = |seconds, times| Step { lasts_ns: seconds * SECOND_NS, times };
        let steps = [step(2, 0.5), step(3, 3.0), step(1, 0.0), step(1, 1.0)];
        let counts = |arrivals: Arrivals, steps: &[Step]| {
            let mut counts = [0u32; 9];
            let mut starts = arrivals.in_steps(steps).take_while(|at| *at < 9 * SECOND_NS);
            starts.by_ref().for_each(|at_ns| counts[(at_ns / SECOND_NS) as usize] += 1);
            counts
        };
        let even = counts(Arrivals::constant(1000.0), &steps);
        assert_eq!(even, [500, 500, 3000, 3000, 3000, 0, 1000, 1000, 1000]);
        let drawn = counts(Arrivals::poisson(1000.0, 5), &steps);
        for (drawn, even) in drawn.into_iter().zip(even) {
            let (drawn, even) = (f64::from(drawn), f64::from(even));
            assert!((drawn - even).abs() <= 5.0 * even.sqrt(), "{drawn} of {even}");
        }
        let over = counts(Arrivals::constant(1000.0), &steps[..3]);
        assert_eq!(over, [500, 500, 3000, 3000, 3000, 0, 0, 0, 0]);
        assert!(Arrivals::constant(1000.0).in_steps(&steps[..3]).is_sorted());
    }

    #[test]
    fn a_trace_is_played_as_written_and_ends() {
        let trace = Trace::parse("# t\n0.25\n0.5\n\n 0.5\n2.25\n").unwrap();
        let starts: Vec<u64> = Arrivals::trace(&trace).collect();
        assert_eq!(starts, [250_000_000, 500_000_000, 500_000_000, 2_250_000_000]);
    }

    #[test]
    fn a_trace_at_another_rate_keeps_its_shape_and_goes_round() {
        // Four starts in 6 s, one every 2 s: at 5 a second, one every 0.2 s.
        let trace = Trace::parse("1\n1.5\n4\n7\n").unwrap();
        let starts: Vec<u64> = Arrivals::trace_at(&trace, 5.0).unwrap().take(9).collect();
        let ms: Vec<u64> = starts.iter().map(|start_ns| start_ns / 1_000_000).collect();
        assert_eq!(ms, [0, 50, 300, 600, 800, 850, 1100, 1400, 1600]);
        let within = Arrivals::trace_at(&trace, 5.0).unwrap();
        assert_eq!(within.take_while(|start_ns| *start_ns < 80 * SECOND_NS).count(), 400);
        let moment = Trace::parse("3\n3\n").unwrap();
        assert!(Arrivals::trace_at(&moment, 5.0).is_none());
    }
}
