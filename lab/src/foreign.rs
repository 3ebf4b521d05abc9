// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a measurement shares its processors with.

use std::collections::HashMap;
use std::fs;
use std::iter::successors;

use crate::family::family;
use crate::processor::FILE;

/// User time of all programs beside this process and its descendants, and the time of the processors
/// that an experiment uses, in kernel ticks: what it shares these with.
///
/// A program's own account is what counts: a processor's is by sampling, and differs from the sum
/// of its programs' by several percent. Of a thread the kernel knows where it ran last alone: all
/// that it did between two readings was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTime {
    cpus: Vec<usize>,
    all_ticks: u64,
    /// By their numbers.
    others: HashMap<i32, Thread>,
}

/// A thread of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    /// The first of a process has the time of those of its threads, and of its children, that have
    /// ended.
    user_ticks: i64,
    /// Where it ran last.
    cpu: usize,
    /// Who has its time when it has ended.
    heir: i32,
}

impl ForeignTime {
    /// Reads what there is on these processors, now.
    #[must_use]
    pub fn on(cpus: &[usize]) -> Self {
        let others = threads_beside(&family(nix::unistd::getpid().as_raw()));
        let text = fs::read_to_string(FILE).unwrap_or_default();
        Self { cpus: cpus.to_vec(), all_ticks: ticks(&text, cpus), others }
    }

    /// The share of others in the time of these processors between an earlier reading and this one,
    /// from 0 to 1.
    #[must_use]
    pub fn share_since(&self, earlier: &Self) -> f64 {
        let here = |thread: &Thread| self.cpus.contains(&thread.cpu);
        let before_ticks =
            |number: &i32| earlier.others.get(number).map_or(0, |thread| thread.user_ticks);
        let there = self.others.iter().filter(|(_, thread)| here(thread));
        let grown: i64 = there.map(|(number, now)| now.user_ticks - before_ticks(number)).sum();
        // What somebody had who has ended has come to the heir, and is not new.
        let gone = earlier.others.iter().filter(|(number, _)| !self.others.contains_key(number));
        let left = gone.filter(|(_, thread)| self.heir(thread, earlier).is_some_and(here));
        let inherited: i64 = left.map(|(_, thread)| thread.user_ticks).sum();
        let all_ticks = self.all_ticks.saturating_sub(earlier.all_ticks).max(1);
        (grown - inherited).max(0) as f64 / all_ticks as f64
    }

    /// Who has the time of one that has ended since: of heirs that have ended as well, theirs.
    fn heir(&self, ended: &Thread, earlier: &Self) -> Option<&Thread> {
        let next = |number: &i32| earlier.others.get(number).map(|thread| thread.heir);
        let mut line = successors(Some(ended.heir), next).take(earlier.others.len());
        line.find_map(|number| self.others.get(&number))
    }
}

/// All the time that these processors have had, by the text of /proc/stat.
fn ticks(text: &str, cpus: &[usize]) -> u64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    let own = lines.filter(|(cpu, _)| cpu.parse().is_ok_and(|cpu| cpus.contains(&cpu)));
    own.flat_map(|(_, ticks)| ticks.split_ascii_whitespace())
        .filter_map(|word| word.parse::<u64>().ok())
        .sum()
}

fn threads_beside(own: &[i32]) -> HashMap<i32, Thread> {
    numbers("/proc").filter(|pid| !own.contains(pid)).flat_map(threads_of).collect()
}

/// The threads of a process, each with its number.
fn threads_of(pid: i32) -> Vec<(i32, Thread)> {
    let Some(whole) = Stat::read(&format!("/proc/{pid}/stat")) else { return Vec::new() };
    let mut threads = Vec::new();
    if whole.threads > 1 {
        let folder = format!("/proc/{pid}/task");
        threads.extend(numbers(&folder).filter(|number| *number != pid).filter_map(|number| {
            let Stat { user_ticks, cpu, .. } = Stat::read(&format!("{folder}/{number}/stat"))?;
            Some((number, Thread { user_ticks, cpu, heir: pid }))
        }));
    }
    let theirs: i64 = threads.iter().map(|(_, thread)| thread.user_ticks).sum();
    let user_ticks = whole.user_ticks + whole.childrens_ticks - theirs;
    threads.push((pid, Thread { user_ticks, cpu: whole.cpu, heir: whole.parent }));
    threads
}

/// The entries of a folder that are named by numbers.
fn numbers(folder: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What the kernel says of a process, or of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    /// Of a process: of all its threads, with those that have ended.
    user_ticks: i64,
    /// Of the process's children that have ended.
    childrens_ticks: i64,
    threads: i64,
    cpu: usize,
}

impl Stat {
    fn read(file: &str) -> Option<Self> {
        // A name of 15 bytes may end within a character.
        Self::parse(&String::from_utf8_lossy(&fs::read(file).ok()?))
    }

    /// The fields have the numbers of proc_pid_stat(5).
    fn parse(text: &str) -> Option<Self> {
        // The second field is the name in brackets, which may hold anything.
        let (_, after_name) = text.rsplit_once(')')?;
        let field = |number: usize| after_name.split_ascii_whitespace().nth(number - 3);
        let ticks = |number| field(number)?.parse::<i64>().ok();
        Some(Self {
            parent: field(4)?.parse().ok()?,
            user_ticks: ticks(14)?,
            childrens_ticks: ticks(16)?,
            threads: field(20)?.parse().ok()?,
            cpu: field(39)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On this many processors one program is a 64th of all.
    const CPUS: usize = 64;
    /// The server's and the crowd's.
    const OWN: [usize; 2] = [0, 63];

    /// So much of every processor's time has passed, and these threads of others are there.
    fn reading<const N: usize>(passed: u64, others: [(i32, Thread); N]) -> ForeignTime {
        let line = |cpu| format!("cpu{cpu} {passed} 0 0 0 0 0 0 0 0 0\n");
        let text = (0..CPUS).map(line).collect::<String>();
        let text = format!("cpu  {} 0 0 0 0 0 0 0 0 0\n{text}intr 7\n", passed * CPUS as u64);
        ForeignTime { cpus: OWN.into(), all_ticks: ticks(&text, &OWN), others: others.into() }
    }

    fn thread(user_ticks: i64, cpu: usize) -> Thread {
        Thread { user_ticks, cpu, heir: 1 }
    }

    /// Told by all the machine's time, whoever has all of the server's processor is nobody there.
    #[test]
    fn who_takes_the_servers_processor_is_seen_among_many() {
        let share = |cpu| {
            let [before, after] = [100, 600].map(|passed| {
                reading(passed, [(9, thread(passed.cast_signed(), cpu)), (10, thread(7, 0))])
            });
            after.share_since(&before)
        };
        assert_eq!(OWN.map(share), [0.5, 0.5]);
        assert_eq!([1, 62].map(share), [0.0, 0.0], "it takes nothing from the experiment");
    }

    /// A build that ends has its time of hours come to the shell that began it.
    #[test]
    fn what_others_did_before_is_not_counted_when_they_end_or_come() {
        let child = |user_ticks, cpu, heir| Thread { heir, ..thread(user_ticks, cpu) };
        let before =
            [(5, thread(10, 0)), (6, child(1000, 3, 5)), (7, child(50, 0, 6)), (8, thread(900, 3))];
        let before = reading(0, before);
        // 6 and, before it, 7 have ended after 40 ticks more; 8 has come here, and 11 from nothing.
        let after = [(5, thread(10 + 1050 + 40, 0)), (8, thread(930, 63)), (11, thread(30, 0))];
        assert_eq!(reading(500, after).share_since(&before), 0.1);
        // Whose heir is elsewhere was so itself, as far as is known.
        let after = [(5, thread(10 + 1050 + 40, 1)), (8, thread(900, 3))];
        assert_eq!(reading(500, after).share_since(&before), 0.0);
    }

    #[test]
    fn a_thread_is_told_by_the_kernels_line() {
        let mut fields = ["0"; 50];
        for (number, value) in [(4, "5"), (14, "70"), (16, "9"), (20, "2"), (39, "63")] {
            fields[number - 3] = value;
        }
        let line = format!("9 (a) b (c)) {}\n", fields.join(" "));
        let stat = Stat { parent: 5, user_ticks: 70, childrens_ticks: 9, threads: 2, cpu: 63 };
        assert_eq!(Stat::parse(&line), Some(stat));
        assert_eq!(Stat::parse("9 (a) R 5 0"), None);
    }

    #[test]
    fn a_thread_whose_name_ends_within_a_character_counts() {
        let named = std::thread::spawn(|| {
            nix::sys::prctl::set_name(c"aaaaaaaaaaaaaaé").unwrap();
            let own = nix::unistd::gettid().as_raw();
            let threads = threads_of(nix::unistd::getpid().as_raw());
            assert!(threads.iter().any(|(number, _)| *number == own), "{own} of {threads:?}");
        });
        named.join().unwrap();
    }

    #[test]
    fn own_work_is_not_foreign() {
        let pid = nix::unistd::getpid().as_raw();
        let ticks = |thread: &Thread| thread.user_ticks;
        let user_ticks_beside = |own: &[i32]| threads_beside(own).values().map(ticks).sum::<i64>();
        let user_ticks = |pid| threads_of(pid).iter().map(|(_, thread)| ticks(thread)).sum::<i64>();
        while user_ticks(pid) < 20 {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
        assert!(threads_of(pid).len() > 1, "tests have threads of their own");
        let others = user_ticks_beside(&family(pid));
        let own = user_ticks(pid);
        assert!(user_ticks_beside(&[]) >= others + own);

        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let family = family(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family.contains(&child.id().cast_signed()) && !family.contains(&1));
    }
}
