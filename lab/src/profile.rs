// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a processor spends its busy time on: by part of the system (Shukla, thesis, Table 4.4), and
//! by system call (Pariag, thesis, Tables 4.3 and 4.9).
//!
//! The processor's clock interrupts it, and so sees code that holds interrupts off only at its end:
//! such time is counted for whatever lets them in again, the entry of softirqs above all, which is
//! with the driver here. Where hardware counters are to be had, perf sees more.
//!
//! It samples an idle processor, too: packets that come to one are worked on in the midst of the idle
//! process, and what excludes idleness excludes all of it (perf_swevent_hrtimer() of Linux 6.18).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use crate::component::{GUARD, component, is_program};
use crate::error::LabError;

/// Prime, so that it keeps no step with the timer tick.
const SAMPLES_PER_S: u64 = 1999;
const BUFFER_BYTES: usize = 1 << 20;
/// The kernel's functions and where they are.
const SYMBOLS: &str = "/proc/kallsyms";
const ALLOW_EVENTS: &str = "set the sysctl kernel.perf_event_paranoid to -1";
const SHOW_SYMBOLS: &str = "be root with CAP_SYSLOG and set the sysctl kernel.kptr_restrict to 0";
/// The least kernel address on every 64-bit Linux.
const KERNEL_FROM: u64 = 0xffff_0000_0000_0000;
/// The marks of a chain are small negative numbers (perf_event.h, PERF_CONTEXT_MAX).
const MARKS_FROM: u64 = -4095_i64 as u64;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What dispatches system calls, on x86-64 and on arm64.
const DISPATCHERS: [&str; 2] = ["do_syscall_64", "invoke_syscall"];
/// Calls that go on in a library under an older one's name.
const CALLS: [(&str, &str); 6] = [
    ("pselect6", "select"),
    ("ppoll", "poll"),
    ("epoll_pwait", "epoll_wait"),
    ("accept4", "accept"),
    ("recvfrom", "recv"),
    ("sendto", "send"),
];
/// Every softirq runs below it, on an idle processor inside the idle loop.
const SOFTIRQ: &str = "handle_softirqs";
/// What whoever sends a packet calls, a program by bpf_clone_redirect(), too: from there on it is on the
/// kernel's way out, like any other.
const SENDING: &str = "__dev_queue_xmit";

/// A profile in the making: samples one processor by its clock until [`Profile::finish`], or until
/// it is dropped.
pub struct Profile {
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Vec<Sample>>>,
}

/// Where the processor was at a tick.
struct Sample {
    process: i32,
    /// Of the instruction, and of those that called it in the kernel, innermost first.
    addresses: Vec<u64>,
}

/// What a profile has sampled.
pub struct Samples(Vec<Sample>);

/// A finished profile.
pub struct Profiled {
    samples: Vec<Sample>,
    symbols: Symbols,
}

impl Profile {
    /// Starts to sample a processor, whatever runs there.
    ///
    /// # Errors
    /// [`LabError::Profile`] where perf events are forbidden, or the kernel's addresses hidden.
    pub fn start(cpu: usize) -> Result<Self, LabError> {
        Self::start_with(cpu, Path::new(SYMBOLS))
    }

    fn start_with(cpu: usize, symbols: &Path) -> Result<Self, LabError> {
        let hidden = |source| LabError::Profile { cpu, source, remedy: SHOW_SYMBOLS };
        File::open(symbols)
            .and_then(|file| show_addresses(BufReader::new(file)))
            .map_err(hidden)?;
        let failed = |source| LabError::Profile { cpu, source, remedy: ALLOW_EVENTS };
        let mut builder = Builder::new(Software::CPU_CLOCK);
        builder
            .any_pid()
            .one_cpu(cpu)
            .include_kernel()
            .sample_frequency(SAMPLES_PER_S)
            .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::CALLCHAIN);
        let mut sampler =
            builder.build().and_then(|counter| counter.sampled(BUFFER_BYTES)).map_err(failed)?;
        sampler.enable().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = thread::Builder::new()
            .name("profile".to_owned())
            .spawn(move || {
                let mut samples = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    thread::park_timeout(LOOK_EVERY);
                    drain(&mut sampler, &mut samples);
                }
                let _ = sampler.disable();
                drain(&mut sampler, &mut samples);
                samples
            })
            .map_err(failed)?;
        Ok(Self { stop, reader: Some(reader) })
    }

    /// Ends it, at once.
    #[must_use]
    pub fn finish(mut self) -> Samples {
        Samples(self.end())
    }

    /// Has the sampling end, and takes what was sampled.
    fn end(&mut self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(reader) = self.reader.take() else { return Vec::new() };
        // It would else go on until its next look.
        reader.thread().unpark();
        reader.join().unwrap_or_default()
    }
}

impl Drop for Profile {
    /// Also where nobody comes to finish it: it would sample what is run next.
    fn drop(&mut self) {
        self.end();
    }
}

impl Samples {
    /// With the names of the kernel's functions, which take a while to read. BPF programs have theirs
    /// as long as they are loaded.
    #[must_use]
    pub fn named(self) -> Profiled {
        Profiled { samples: self.0, symbols: Symbols::of_this_kernel() }
    }
}

impl Profiled {
    /// The share of each component in the busy time, from 0 to 1; nothing where the processor was
    /// idle throughout.
    #[must_use]
    pub fn components(&self) -> BTreeMap<String, f64> {
        shares(self.samples.iter().filter_map(|sample| {
            let innermost = *sample.addresses.first()?;
            if innermost < KERNEL_FROM {
                return Some("application");
            }
            if self.symbols.is_idle(&sample.addresses) {
                return None;
            }
            if self.symbols.is_for_a_program(&sample.addresses) {
                return Some(GUARD);
            }
            component(self.symbols.name(innermost))
        }))
    }

    /// The share of each system call in the time that these processes had, from 0 to 1. `user` is
    /// their own code, `entry` the way into calls and out, `interrupt` what the kernel did meanwhile
    /// for packets and timers.
    #[must_use]
    pub fn calls(&self, processes: &[i32]) -> BTreeMap<String, f64> {
        let own = self.samples.iter().filter(|sample| processes.contains(&sample.process));
        shares(own.map(|sample| self.symbols.call(&sample.addresses)))
    }
}

fn shares<'a>(parts: impl Iterator<Item = &'a str>) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for part in parts {
        *counts.entry(part).or_default() += 1;
    }
    let whole: u64 = counts.values().sum();
    counts.into_iter().map(|(part, count)| (part.to_owned(), count as f64 / whole as f64)).collect()
}

/// Whether functions have addresses: to whom they are hidden, all are at 0, and any of them would be
/// every function.
fn show_addresses(symbols: impl BufRead) -> io::Result<()> {
    for line in symbols.lines() {
        let line = line?;
        if line.split_ascii_whitespace().next().is_some_and(|at| at.contains(|d| d != '0')) {
            return Ok(());
        }
    }
    Err(io::Error::other("the kernel hides where its functions are"))
}

fn drain(sampler: &mut Sampler, samples: &mut Vec<Sample>) {
    while let Some(record) = sampler.next_record() {
        if let Ok(perf_event::data::Record::Sample(sample)) = record.parse_record() {
            let innermost = sample.ip();
            // The chain begins with a mark that says whose it is, and repeats the instruction; the
            // program's own part comes last, after a mark of its own.
            let chain = sample.callchain().unwrap_or_default().iter().copied();
            let callers = chain.skip(2).take_while(|at| (KERNEL_FROM..MARKS_FROM).contains(at));
            samples.push(Sample {
                process: sample.pid().map_or(0, u32::cast_signed),
                addresses: innermost.into_iter().chain(callers).collect(),
            });
        }
    }
}

/// The kernel's functions by address, those of BPF programs among them.
struct Symbols(Vec<(u64, String)>);

impl Symbols {
    fn of_this_kernel() -> Self {
        Self::parse(&fs::read_to_string(SYMBOLS).unwrap_or_default())
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

    /// Whether the processor was in the idle loop, and in no softirq on top of it.
    fn is_idle(&self, addresses: &[u64]) -> bool {
        let names = addresses.iter().map(|address| self.name(*address));
        names.take_while(|name| *name != SOFTIRQ).any(|name| component(name).is_none())
    }

    /// Whether a BPF program has called what was under way. What it gives back to the kernel, and what is
    /// sent or redirected when it has ended, runs when it is on the stack no more.
    fn is_for_a_program(&self, addresses: &[u64]) -> bool {
        let names = addresses.iter().map(|address| self.name(*address));
        names.take_while(|name| ![SOFTIRQ, SENDING].contains(name)).any(is_program)
    }

    /// What a process was at, by the addresses on its stack, innermost first.
    fn call(&self, addresses: &[u64]) -> &str {
        let mut before = "";
        for address in addresses {
            if *address < KERNEL_FROM {
                return "user";
            }
            let name = self.name(*address);
            if name == SOFTIRQ {
                return "interrupt";
            }
            if DISPATCHERS.contains(&name) {
                return call(before);
            }
            before = name;
        }
        "interrupt"
    }
}

/// The system call that a function of the kernel carries out: of `__x64_sys_close`, or of what that
/// one ends with a jump to, such as `ksys_read`, `__sys_accept4`, `do_writev`.
fn call(function: &str) -> &str {
    let is_between = function.is_empty() || function.starts_with("exit_to_user_mode");
    if is_between || function == "x64_sys_call" {
        return "entry";
    }
    let call = match function.split_once("sys_") {
        Some((_, call)) => call,
        None => function.trim_start_matches("do_"),
    };
    CALLS.iter().find(|(name, _)| *name == call).map_or(call, |(_, known)| known)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Instant;

    use super::*;
    use crate::{Link, Namespace, allowed_cpus, pin_thread, say_skipped, skip_without_root};

    #[test]
    fn who_is_dropped_samples_no_more() {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, held) = (Arc::clone(&stop), Arc::downgrade(&stop));
        let reader = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            Vec::new()
        });
        drop(Profile { stop, reader: Some(reader) });
        assert_eq!(held.strong_count(), 0, "its reader has ended");
    }

    #[test]
    fn where_addresses_are_hidden_nothing_is_sampled() {
        let shown = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n";
        let hidden = "0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n";
        assert!(show_addresses(shown.as_bytes()).is_ok());
        assert!(show_addresses(hidden.as_bytes()).is_err() && show_addresses(&b""[..]).is_err());
        // There is nothing to be read in it, either.
        let told = Profile::start_with(0, Path::new("/dev/null")).err().unwrap().to_string();
        assert!(told.contains("kernel.kptr_restrict") && told.contains("CAP_SYSLOG"), "{told}");
        assert!(told.ends_with("or leave `profile` out") && told.lines().count() == 1, "{told}");
    }

    #[test]
    fn a_stack_is_of_the_call_that_it_began_with() {
        let names = ["do_syscall_64", "__x64_sys_accept4", "tcp_ack", SOFTIRQ, "asm_exc"];
        let line =
            |(place, name): (u64, &str)| format!("{:x} T {name}\n", KERNEL_FROM + 0x10 * place);
        let symbols = Symbols::parse(&(1..).zip(names).map(line).collect::<String>());
        let [dispatcher, accept, ack, softirq, exception] =
            [1, 2, 3, 4, 5].map(|place| KERNEL_FROM + 0x10 * place + 1);
        assert_eq!(symbols.call(&[ack, accept, dispatcher]), "accept");
        assert_eq!(symbols.call(&[dispatcher]), "entry");
        assert_eq!(symbols.call(&[ack, softirq, accept, dispatcher]), "interrupt");
        assert_eq!(symbols.call(&[exception]), "interrupt");
        assert_eq!(symbols.call(&[0x1000]), "user");
        assert_eq!(
            ["ksys_read", "__sys_setsockopt", "do_writev"].map(call),
            ["read", "setsockopt", "writev"]
        );
    }

    /// Other tests may keep the processor busy meanwhile: it is asked for until it was idle.
    #[test]
    fn packets_that_come_to_an_idle_processor_are_sampled() {
        const ENOUGH: usize = 20;
        let test = "packets_that_come_to_an_idle_processor_are_sampled";
        if skip_without_root(test) {
            return;
        }
        let [own, senders, ..] = allowed_cpus().expect("processors")[..] else {
            return say_skipped(test, &"there is one processor");
        };
        let [server, clients] = ["server", "clients"].map(|label| Namespace::new(label).unwrap());
        let link = Link::between(&server, "server0", &clients, "clients0").unwrap();
        for (end, address, cpu) in [(link.a(), "10.0.0.1", own), (link.b(), "10.0.0.2", senders)] {
            end.add_address(&format!("{address}/24")).unwrap();
            end.receive_on(cpu).unwrap();
        }
        link.up().unwrap();
        let sampled = || {
            let profile = Profile::start(own).expect("perf events");
            let connecting = clients.thread(move || {
                pin_thread(senders).expect("a processor");
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(500) {
                    assert!(TcpStream::connect("10.0.0.1:80").is_err(), "nobody listens there");
                }
            });
            connecting.unwrap().join().unwrap();
            let Profiled { samples, symbols } = profile.finish().named();
            let has = |sample: &Sample, name: &str| {
                sample.addresses.iter().any(|address| symbols.name(*address) == name)
            };
            let on_top = |sample: &&Sample| has(sample, SOFTIRQ) && has(sample, "do_idle");
            samples.iter().filter(on_top).count()
        };
        assert!((0..20).any(|_| sampled() >= ENOUGH), "none in 10 s");
    }

    #[test]
    fn an_idle_processor_is_busy_in_a_softirq() {
        let functions =
            ["tcp_ack", SOFTIRQ, "pv_native_safe_halt", "tick_nohz_idle_exit", "do_idle"];
        let line =
            |(place, name): (u64, &str)| format!("{:x} T {name}\n", KERNEL_FROM + 0x10 * place);
        let symbols = Symbols::parse(&(1..).zip(functions).map(line).collect::<String>());
        let [ack, softirq, halt, exit, idle] =
            [1, 2, 3, 4, 5].map(|place| KERNEL_FROM + 0x10 * place + 1);
        let sample = |addresses: &[u64]| Sample { process: 0, addresses: addresses.to_vec() };
        let samples = vec![
            sample(&[halt, idle]),
            sample(&[exit, idle]),
            sample(&[ack, softirq, halt, idle]),
            sample(&[softirq, idle]),
            // Of a process, in a softirq and out of it.
            sample(&[ack, softirq]),
            sample(&[ack]),
        ];
        let parts = Profiled { samples, symbols }.components();
        let expected =
            [("driver", 0.25), ("net-tcp", 0.75)].map(|(part, of)| (part.to_owned(), of));
        assert_eq!(parts, BTreeMap::from(expected));
    }

    /// As the simulator has a guard's decision as one.
    #[test]
    fn what_a_program_calls_is_the_guard_s() {
        let functions = [
            "htab_map_lookup_elem",
            "__inet_lookup_listener",
            "bpf_skc_lookup_tcp",
            "bpf_prog_6deef7357e7b4530_tidegate_ip",
            "tcx_run",
            "veth_xmit",
            SENDING,
            "ip_rcv",
            "bpf_prog_test_run_xdp",
            "tcp_sendmsg",
            SOFTIRQ,
            "do_idle",
        ];
        let line =
            |(place, name): (u64, &str)| format!("{:x} T {name}\n", KERNEL_FROM + 0x10 * place);
        let symbols = Symbols::parse(&(1..).zip(functions).map(line).collect::<String>());
        let part = |stack: &[&str]| {
            let place = |name: &&str| functions.iter().position(|known| known == name).unwrap();
            let address = |name| KERNEL_FROM + 0x10 * (place(name) as u64 + 1) + 1;
            let sample = Sample { process: 0, addresses: stack.iter().map(address).collect() };
            let symbols = Symbols(symbols.0.clone());
            let parts = Profiled { samples: vec![sample], symbols }.components();
            parts.into_keys().next().unwrap()
        };
        let [map, listener, look_up, program, run, cable, sending, ip, test, tcp, softirq, idle] =
            functions;
        assert_eq!(part(&[map, program, run, softirq, idle]), GUARD);
        assert_eq!(part(&[listener, look_up, program, run, softirq]), GUARD);
        assert_eq!(part(&[program, run, softirq]), GUARD);
        // What it sends goes out as everything does; where it looks at what goes out it decides.
        assert_eq!(part(&[cable, sending, program, run, softirq]), "driver");
        assert_eq!(part(&[map, program, run, sending, tcp]), GUARD);
        // It has ended, or was interrupted.
        assert_eq!(part(&[ip, softirq, idle]), "net-ip");
        assert_eq!(part(&[ip, softirq, map, program, run, tcp]), "net-ip");
        // The kernel's own function is no program.
        assert_eq!(part(&[ip, test]), "net-ip");
    }

    #[test]
    fn an_address_belongs_to_the_symbol_before_it() {
        let symbols = Symbols::parse("20 T tcp_v4_rcv\n10 t ip_rcv\n30 t bpf_prog_1 [bpf]\n");
        assert_eq!(symbols.name(0x2f), "tcp_v4_rcv");
        assert_eq!(symbols.name(0x10), "ip_rcv");
        assert_eq!(symbols.name(0x99), "bpf_prog_1");
        assert_eq!(symbols.name(0x1), "");
    }
}
