// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which part of the system a processor spends its busy time in (Shukla, thesis, Table 4.4).
//!
//! The processor's clock interrupts it, and so sees code that holds interrupts off only at its end:
//! such time is counted for whatever lets them in again, the entry of softirqs above all, which is
//! with the driver here. Where hardware counters are to be had, perf sees more.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use crate::component::component;
use crate::error::LabError;

/// Prime, so that it keeps no step with the timer tick.
const SAMPLES_PER_S: u64 = 1999;
const BUFFER_BYTES: usize = 1 << 20;
/// The least kernel address on every 64-bit Linux.
const KERNEL_FROM: u64 = 0xffff_0000_0000_0000;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A profile in the making: samples one processor by its clock until [`Profile::finish`].
pub struct Profile {
    stop: Arc<AtomicBool>,
    reader: JoinHandle<Vec<u64>>,
}

impl Profile {
    /// Starts to sample a processor, whatever runs there.
    ///
    /// # Errors
    /// [`LabError::Profile`] where perf events are forbidden.
    pub fn start(cpu: usize) -> Result<Self, LabError> {
        let failed = |source: io::Error| LabError::Profile { cpu, source };
        let mut builder = Builder::new(Software::CPU_CLOCK);
        builder
            .any_pid()
            .one_cpu(cpu)
            .include_kernel()
            .exclude_idle(true)
            .sample_frequency(SAMPLES_PER_S)
            .sample(SampleFlag::IP);
        let mut sampler =
            builder.build().and_then(|counter| counter.sampled(BUFFER_BYTES)).map_err(failed)?;
        sampler.enable().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || {
                let mut addresses = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    thread::sleep(LOOK_EVERY);
                    drain(&mut sampler, &mut addresses);
                }
                let _ = sampler.disable();
                drain(&mut sampler, &mut addresses);
                addresses
            })
            .map_err(failed)?;
        Ok(Self { stop, reader })
    }

    /// Ends it: the share of each component in the busy time, from 0 to 1; nothing where the
    /// processor was idle throughout.
    #[must_use]
    pub fn finish(self) -> BTreeMap<String, f64> {
        self.stop.store(true, Ordering::Relaxed);
        let addresses = self.reader.join().unwrap_or_default();
        let symbols = Symbols::of_this_kernel();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for address in addresses {
            let part = if address < KERNEL_FROM {
                Some("application")
            } else {
                component(symbols.name(address))
            };
            if let Some(part) = part {
                *counts.entry(part).or_default() += 1;
            }
        }
        let whole: u64 = counts.values().sum();
        counts
            .into_iter()
            .map(|(part, count)| (part.to_owned(), count as f64 / whole as f64))
            .collect()
    }
}

fn drain(sampler: &mut Sampler, addresses: &mut Vec<u64>) {
    while let Some(record) = sampler.next_record() {
        if let Ok(perf_event::data::Record::Sample(sample)) = record.parse_record() {
            addresses.extend(sample.ip());
        }
    }
}

/// The kernel's functions by address, those of BPF programs among them.
struct Symbols(Vec<(u64, String)>);

impl Symbols {
    fn of_this_kernel() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut all: Vec<(u64, String)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                Some((address, words.nth(1)?.to_owned()))
            })
            .collect();
        all.sort_by_key(|(address, _)| *address);
        Self(all)
    }

    fn name(&self, address: u64) -> &str {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map_or("", |at| self.0[at].1.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_symbol_before_it() {
        let symbols = Symbols::parse("20 T tcp_v4_rcv\n10 t ip_rcv\n30 t bpf_prog_1 [bpf]\n");
        assert_eq!(symbols.name(0x2f), "tcp_v4_rcv");
        assert_eq!(symbols.name(0x10), "ip_rcv");
        assert_eq!(symbols.name(0x99), "bpf_prog_1");
        assert_eq!(symbols.name(0x1), "");
    }
}
