// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that really takes the processor: a number of steps, not a span of time.
//!
//! A cost in µs is turned into steps once, at the speed that the processor showed at the start, or
//! at one that is given, so that servers started one after the other do the same: a virtual
//! processor can be a third slower while somebody measures it, and no slower afterwards. From then
//! on it is those steps, however long they take. So whatever takes the processor from
//! the server takes replies from it: packets that softirqs process in the middle of a reply, other
//! threads, a hypervisor. Waiting for a clock instead would let them pass for work wherever the
//! clock charges them to the thread: a kernel without `CONFIG_IRQ_TIME_ACCOUNTING` charges softirqs
//! to the thread that they interrupt, and an overloaded server would seem to lose nothing to them.
//!
//! Pages that are computed take such steps too, as many as they are asked for.
//!
//! The steps are arithmetic in registers. They touch no memory, so they do not feel caches that
//! packet processing has emptied, and they make no system calls. A processor that turns slower
//! later (heat, a busy sibling thread, a slower core) takes longer for the same cost.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Long enough for a frequency governor to notice.
const WARM_UP: Duration = Duration::from_millis(30);
/// Tens of µs: far longer than a look at the clock, far shorter than the time between interrupts.
const STEPS_PER_RUN: u64 = 20_000;
const RUNS: u32 = 5000;
/// Any number but 0, from which xorshift never leaves.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The work done for each reply.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    steps_per_us: u64,
    steps_per_reply: u64,
    state: u64,
}

impl Work {
    /// Work of so many µs at this speed, in steps a µs.
    pub(crate) fn costing(cost_us: u64, steps_per_us: u64) -> Self {
        let steps_per_reply = cost_us.saturating_mul(steps_per_us);
        Self { steps_per_us, steps_per_reply, state: SEED }
    }

    /// Does the work for one reply, and says how many steps that were.
    pub(crate) fn once(&mut self) -> u64 {
        self.state = walk(self.state, self.steps_per_reply);
        self.steps_per_reply
    }

    /// Does work of so many µs, and says how many steps that were and where they led.
    pub(crate) fn burn(&mut self, cost_us: u64) -> (u64, u64) {
        let steps = cost_us.saturating_mul(self.steps_per_us);
        self.state = walk(self.state, steps);
        (steps, self.state)
    }

    /// Whether so many steps take so many µs, or more.
    pub(crate) fn takes(&self, steps: u64, us: u64) -> bool {
        steps >= us.saturating_mul(self.steps_per_us)
    }
}

/// Takes so many steps of xorshift64 (Marsaglia, *Xorshift RNGs*, 2003): each needs the one before,
/// so neither the compiler nor the processor can take two at a time.
// Never inlined, so that what was measured is what is run.
#[inline(never)]
fn walk(from: u64, steps: u64) -> u64 {
    let mut state = black_box(from);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

/// The steps that the processor takes in a µs when nothing disturbs it. The first call of a process
/// measures them, for a quarter of a second; later ones remember.
#[must_use]
pub fn steps_per_us() -> u64 {
    static SPEED: OnceLock<u64> = OnceLock::new();
    *SPEED.get_or_init(measure_steps_per_us)
}

/// The fastest of many short runs is one that nothing interrupted.
fn measure_steps_per_us() -> u64 {
    let mut state = SEED;
    let started = Instant::now();
    while started.elapsed() < WARM_UP {
        state = walk(state, STEPS_PER_RUN);
    }
    let fastest_ns = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            state = walk(state, STEPS_PER_RUN);
            started.elapsed().as_nanos() as u64
        })
        .min()
        .unwrap_or(0)
        .max(1);
    ((STEPS_PER_RUN * 1000 + fastest_ns / 2) / fastest_ns).max(1)
}

#[cfg(test)]
mod tests {
    use super::{STEPS_PER_RUN, Work, steps_per_us, walk};

    const SPEED: u64 = 300;

    #[test]
    fn ten_times_the_cost_is_ten_times_the_steps() {
        let (mut cheap, mut dear) = (Work::costing(7, SPEED), Work::costing(70, SPEED));
        let steps_of_ten: u64 = (0..10).map(|_| cheap.once()).sum();
        assert_eq!(dear.once(), steps_of_ten);
        // Where the walks have come to shows that the steps were taken, not only counted.
        assert_eq!(dear.state, cheap.state);
        assert_eq!(dear.steps_per_reply, 70 * SPEED);
        assert_ne!(dear.state, Work::costing(0, SPEED).state);
    }

    #[test]
    fn a_page_takes_the_steps_that_it_is_asked_for() {
        let (mut page, mut cost) = (Work::costing(0, SPEED), Work::costing(3, SPEED));
        let (steps, end) = page.burn(30);
        let steps_of_ten: u64 = (0..10).map(|_| cost.once()).sum();
        assert_eq!((steps, end), (steps_of_ten, cost.state));
        assert_eq!(page.burn(0), (0, end));
    }

    #[test]
    fn no_cost_is_no_work() {
        let mut free = Work::costing(0, SPEED);
        let before = free.state;
        assert_eq!(free.once(), 0);
        assert_eq!(free.state, before);
    }

    #[test]
    fn the_steps_are_really_taken() {
        // Six operations, one after the other: no processor does a hundred such steps in a ns. A
        // loop that the compiler removed would.
        assert!(steps_per_us() < 100_000, "{}", steps_per_us());
        let halfway = walk(1, STEPS_PER_RUN / 2);
        assert_eq!(walk(halfway, STEPS_PER_RUN / 2), walk(1, STEPS_PER_RUN));
        assert_eq!(
            walk(1, 1),
            0x4082_2041,
            "the first step from 1, as Marsaglia's triple gives it"
        );
    }
}
