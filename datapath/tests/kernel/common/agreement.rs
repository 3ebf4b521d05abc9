// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy as BPF, asked what the native build is asked, as `agree.bpf.c` has it.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};

use fastrand::Rng;
use memmap2::{MmapMut, MmapOptions};
use tidegate_datapath::plain::Plain;
use tidegate_datapath::programs::{Objects, Programs};
use tidegate_policy::raw::tg_tuple;

use super::Runner;

/// What one run of a program answers.
const BATCH: usize = 4096;

/// Programs of the kernel that turn cases `C` into answers `A`, and the memory through which they
/// are asked.
pub struct Kernel<C, A> {
    programs: Programs,
    parts: &'static [&'static str],
    asked: MmapMut,
    answered: MmapMut,
    runner: Runner,
    types: PhantomData<(C, A)>,
}

/// A BPF array of `T`, as the kernel itself has it.
fn mapped<T>(programs: &Programs, name: &str) -> MmapMut {
    assert_eq!(size_of::<T>() % 8, 0, "array elements stand eight bytes apart");
    let fd = programs.map(name).as_fd().as_raw_fd();
    // SAFETY: a BPF_F_MMAPABLE array of BATCH elements; only the programs run below write to it
    // besides us, and never while we look.
    unsafe { MmapOptions::new().len(BATCH * size_of::<T>()).map_mut(fd) }.unwrap()
}

impl<C: Plain, A: Plain> Kernel<C, A> {
    /// `parts` are the programs, each of which does its part of every case; the maps are named
    /// `cases` and `answers` with `prefix` before it.
    pub fn load(parts: &'static [&'static str], prefix: &str) -> Self {
        let programs = Programs::load(Objects::Agreement, Default::default()).unwrap();
        let asked = mapped::<C>(&programs, &format!("{prefix}cases"));
        let answered = mapped::<A>(&programs, &format!("{prefix}answers"));
        Kernel { programs, parts, asked, answered, runner: Runner::new(), types: PhantomData }
    }

    /// Asks so many cases, filled up to whole batches, and holds each answer against the native
    /// build's, which is looked at then. Returns how many they were.
    #[track_caller]
    pub fn agrees(
        &mut self,
        inputs: usize,
        mut fill: impl FnMut() -> C,
        native: impl Fn(&C) -> A,
        mut look: impl FnMut(&C, &A),
    ) -> usize
    where
        C: Debug,
        A: Debug + PartialEq,
    {
        let batches = inputs.div_ceil(BATCH);
        for _ in 0..batches {
            let (cases, answers) = self.ask(&mut fill);
            for (case, in_kernel) in cases.iter().zip(answers) {
                let answer = native(case);
                assert_eq!(answer, *in_kernel, "native on the left, for {case:#?}");
                look(case, &answer);
            }
        }
        batches * BATCH
    }

    /// Asks a whole batch.
    fn ask(&mut self, fill: impl FnMut() -> C) -> (&[C], &[A]) {
        // SAFETY: page-aligned memory of BATCH elements, in which every bit pattern is a value.
        let cases =
            unsafe { std::slice::from_raw_parts_mut(self.asked.as_mut_ptr().cast::<C>(), BATCH) };
        cases.fill_with(fill);
        for part in self.parts {
            let program = self.programs.program(part).unwrap();
            assert_eq!(self.runner.run(program, &[], &[]).unwrap().returned, 0, "all answered");
        }
        // SAFETY: as above; the programs have returned, so nothing writes.
        let answers =
            unsafe { std::slice::from_raw_parts(self.answered.as_ptr().cast::<A>(), BATCH) };
        (cases, answers)
    }
}

/// A connection at random.
pub fn tuple(rng: &mut Rng) -> tg_tuple {
    let mut t = tg_tuple { is_ipv6: rng.u32(..2), ..Default::default() };
    // IPv4's unused words are filled too: they must not matter, or matter alike.
    for address in t.saddr.iter_mut().chain(&mut t.daddr) {
        *address = rng.u32(..);
    }
    t.sport = rng.u16(..);
    t.dport = rng.u16(..);
    t
}
