// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the numbers of a result are called. In some groups 0 is not written down: what is called otherwise has
//! never happened, so that a claim about a misspelt part would hold. In the others it would be decided by nothing.

use tidegate_client::Errors;
use tidegate_client::tally::WITHIN_MS;
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::nearest::nearest;

/// A kind of failed attempts, and how many an outcome has of it.
pub type ErrorKind = (&'static str, fn(&Errors) -> u64);

/// Told no, by a RST sooner or later.
pub const TURNED_AWAY: [ErrorKind; 2] =
    [("refused", |errors| errors.refused), ("reset", |errors| errors.reset)];

/// Left hanging until they gave up.
pub const TIMED_OUT: [ErrorKind; 2] = [
    ("timeout", |errors| errors.timed_out_connecting),
    ("timeout, connected", |errors| errors.timed_out_waiting),
];

/// The parts of `errors_per_s` that theses plot: they are there even when they are 0.
pub const PLOTTED_ERRORS: [ErrorKind; 4] =
    [TURNED_AWAY[0], TURNED_AWAY[1], TIMED_OUT[0], TIMED_OUT[1]];

/// The others that are told apart, where there are any.
pub const OTHER_ERRORS: [ErrorKind; 5] = [
    ("closed early", |errors| errors.closed_early),
    ("HTTP error", |errors| errors.http_error),
    ("nonsense", |errors| errors.nonsense),
    ("withdrawn", |errors| errors.withdrawn),
    ("not started", |errors| errors.not_started),
];

/// All else is called by its errno, but for what connect() says when every port is taken or in TIME-WAIT,
/// which has a name of its own.
pub const NO_PORT_ERRNO: &str = "EADDRNOTAVAIL";
/// That name.
pub const NO_PORT_FREE: &str = "no port free";

/// The parts of `queue_drops_per_s` where a guard counts: by rule, as its status calls them.
pub use tidegate_policy::queue_drops::QUEUE_DROPS as GUARD_DROPS;

/// The same where the kernel counts, which does not tell a SYN from an ACK.
pub const KERNEL_DROPS: [&str; 2] = ["ListenOverflows", "ListenDrops, others"];
/// The sum of a guard's at the SYN stage, which no result writes down: a part of `queue_drops_per_s`, too.
pub const SYN_STAGE_DROPS: &str = "SYN stage";

/// The numbers, and groups of numbers, that a result has.
pub const NUMBERS: [&str; 28] = [
    "answered_within_per_s",
    "attempts",
    "capacity_per_s",
    "cpu",
    "cpu_calls",
    "cpu_components",
    "delay_ms",
    "duration_s",
    "errors_per_s",
    "kernel",
    "kernel_s",
    "late_p99_ms",
    "networks",
    "offered_over_capacity",
    "offered_per_s",
    "queue_drops_per_s",
    "refusal_ms",
    "replies_per_s",
    "replies_per_s_ci95",
    "response_ms",
    "seconds",
    "seed",
    "segments",
    "serving",
    "syns_per_attempt",
    "time_wait",
    "verdicts_per_s",
    "visits",
];

/// The groups whose parts add up: alone they are their sum, and bars are of them.
pub const SUMS: [&str; 9] = [
    "cpu",
    "cpu_calls",
    "cpu_components",
    "errors_per_s",
    "kernel",
    "queue_drops_per_s",
    "segments",
    "syns_per_attempt",
    "verdicts_per_s",
];

/// The groups whose parts do not: alone they are no number.
pub const SUMLESS: [&str; 9] = [
    "answered_within_per_s",
    "delay_ms",
    "networks",
    "refusal_ms",
    "response_ms",
    "seconds",
    "serving",
    "time_wait",
    "visits",
];

/// The parts of `response_ms`, `refusal_ms` and `delay_ms`.
pub const TIMES: [&str; 7] = ["ci95", "deviation", "max", "mean", "p50", "p90", "p99"];

/// The parts of `segments`.
pub const SEGMENTS: [&str; 10] = [
    "ack_sent",
    "data_sent",
    "fin_sent",
    "lost_here",
    "received",
    "rst_received",
    "rst_sent",
    "sent",
    "syn_ack_received",
    "syn_sent",
];

/// The parts of `serving`, as our own servers count them.
pub const SERVING: [&str; 8] = [
    "accept_phases_per_s",
    "accepts_per_phase",
    "accepts_per_s",
    "fd_rate_per_s",
    "fds_per_call",
    "found_dead_per_s",
    "select_rate_per_s",
    "work_items_per_phase",
];

/// The parts of `visits`.
pub const VISITS: [&str; 5] =
    ["abandoned_per_s", "completed_per_s", "page_mean_ms", "page_p99_ms", "started_per_s"];

/// The parts of `cpu`: the modes of a processor. Simulated, there is neither a hardware interrupt's nor
/// another machine's.
pub const CPU: [&str; 6] = ["idle", "interrupt", "softirq", "stolen", "system", "user"];

/// The parts of `time_wait`.
pub const TIME_WAIT: [&str; 7] = [
    "clients",
    "clients_max",
    "server",
    "server_bytes",
    "server_max",
    "server_tcb_bytes",
    "server_tcbs",
];

/// The parts of `seconds`, each of which has numbers second by second.
pub const SECONDS: [&str; 4] = ["failed", "repeated", "replies", "started"];

/// The parts of `cpu_calls`: no call's, and the calls that a server may make, as a profile tells them. Of
/// those none was seen that is not written down.
const CPU_CALLS: [&str; 45] = [
    "user",
    "interrupt",
    "entry",
    "accept",
    "bind",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "clone3",
    "close",
    "connect",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "fcntl",
    "futex",
    "getsockname",
    "getsockopt",
    "io_uring_enter",
    "ioctl",
    "listen",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "newfstat",
    "newfstatat",
    "openat",
    "openat2",
    "poll",
    "pread64",
    "pwrite64",
    "read",
    "readv",
    "recv",
    "recvmsg",
    "select",
    "send",
    "sendfile64",
    "sendmsg",
    "setsockopt",
    "shutdown",
    "statx",
    "write",
    "writev",
];

/// That a verdict's number is of a verdict and a reason.
fn check_verdict(part: &str) -> Result<(), String> {
    let known =
        |(verdict, reason): (&str, &str)| VERDICTS.contains(&verdict) && REASONS.contains(&reason);
    match part.split_once(": ").is_some_and(known) {
        true => Ok(()),
        false => Err(format!(
            "verdicts_per_s has no part \"{part}\"; write a verdict and its reason, as in \"drop: SynQFull\""
        )),
    }
}

/// That a number asked for, by its path, is not one that no result can have. Those of `networks` are the
/// scenario's.
pub(crate) fn check(path: &str, networks: &[String]) -> Result<(), String> {
    let (group, part) =
        path.split_once('.').map_or((path, None), |(group, part)| (group, Some(part)));
    if !NUMBERS.contains(&group) {
        return Err(match nearest(group, NUMBERS) {
            Some(meant) => format!("a result has no \"{group}\"; \"{meant}\" may be meant"),
            None => format!("a result has no \"{group}\"; there are {}", NUMBERS.join(", ")),
        });
    }
    if group == "verdicts_per_s" {
        return part.map_or(Ok(()), check_verdict);
    }
    let Some((known, others)) = parts(group, networks) else { return Ok(()) };
    let all = || match known.is_empty() {
        true => "none".to_owned(),
        false => format!("\"{}\"{others}", known.join("\", \"")),
    };
    match part {
        None if SUMLESS.contains(&group) => {
            Err(format!("{group} has no sum: ask for a part of it; there are {}", all()))
        }
        None => Ok(()),
        Some(part) if known.contains(&part.to_owned()) || is_one_of_many(group, part) => Ok(()),
        Some(part) => Err(format!("{group} has no part \"{part}\"; there are {}", all())),
    }
}

/// The same of a group whose parts are stacked.
pub(crate) fn check_bars(path: &str, networks: &[String]) -> Result<(), String> {
    if SUMS.contains(&path) {
        return Ok(());
    }
    if !NUMBERS.contains(&path) {
        check(path, networks)?;
    }
    Err(format!(
        "bars are of a group that has a sum, and not of {path}; there are {}",
        SUMS.join(", ")
    ))
}

/// A group's parts, and what else may be one; nothing where that may be anything.
fn parts(group: &str, networks: &[String]) -> Option<(Vec<String>, &'static str)> {
    let errors = || PLOTTED_ERRORS.into_iter().chain(OTHER_ERRORS).map(|(name, _)| name);
    let (known, others): (Vec<&str>, _) = match group {
        "cpu_components" | "kernel" => return None,
        "answered_within_per_s" => {
            return Some((WITHIN_MS.iter().map(u32::to_string).collect(), ""));
        }
        "networks" => return Some((networks.to_vec(), "")),
        "cpu" => (CPU.to_vec(), ""),
        "cpu_calls" => (CPU_CALLS.to_vec(), ""),
        "errors_per_s" => {
            (errors().chain([NO_PORT_FREE]).collect(), ", and errnos such as \"EMFILE\"")
        }
        "queue_drops_per_s" => {
            (GUARD_DROPS.into_iter().chain([SYN_STAGE_DROPS]).chain(KERNEL_DROPS).collect(), "")
        }
        "response_ms" | "refusal_ms" | "delay_ms" => (TIMES.to_vec(), ""),
        "seconds" => (SECONDS.to_vec(), ", and one second of each, as in \"replies.7\""),
        "segments" => (SEGMENTS.to_vec(), ""),
        "serving" => (SERVING.to_vec(), ""),
        "syns_per_attempt" => {
            (vec!["mean"], ", and those of so many SYNs, as in \"3.attempts\" and \"3.errors\"")
        }
        "time_wait" => (TIME_WAIT.to_vec(), ""),
        "visits" => (VISITS.to_vec(), ""),
        _ => (Vec::new(), ""),
    };
    Some((known.into_iter().map(str::to_owned).collect(), others))
}

/// Whether it is one of those parts of a group that are too many to be told.
fn is_one_of_many(group: &str, part: &str) -> bool {
    match group {
        "errors_per_s" => is_errno(part) && part != NO_PORT_ERRNO,
        "seconds" => is_one_second(part),
        "syns_per_attempt" => is_of_so_many_syns(part),
        _ => false,
    }
}

/// `3`, which is its attempts, or `3.errors`.
fn is_of_so_many_syns(part: &str) -> bool {
    let (syns, kind) = part.split_once('.').unwrap_or((part, "attempts"));
    syns.parse::<u32>().is_ok() && ["attempts", "errors"].contains(&kind)
}

/// `replies.7`.
fn is_one_second(part: &str) -> bool {
    let of_it =
        |(name, second): (&str, &str)| SECONDS.contains(&name) && second.parse::<usize>().is_ok();
    part.split_once('.').is_some_and(of_it)
}

/// That a number is one where whoever asks has no place for each second's: a sum of all is no rate.
pub(crate) fn check_one(path: &str, asks: &str) -> Result<(), String> {
    let is_over_time = |part: &str| SECONDS.contains(&part);
    match path.strip_prefix("seconds.").is_some_and(is_over_time) {
        true => Err(format!(
            "{path} has a number each second, and {asks} one: name a second, as in \"{path}.7\""
        )),
        false => Ok(()),
    }
}

/// That a panel's number is not of one second: what is by the second is drawn over time.
pub(crate) fn check_panel(path: &str) -> Result<(), String> {
    match of_one_second(path) {
        Some(all) => Err(format!("{path} is of one second, and a panel of all: ask for {all}")),
        None => Ok(()),
    }
}

/// The number over time that one of a single second is of: `seconds.replies` for `seconds.replies.7`.
pub(crate) fn of_one_second(path: &str) -> Option<&str> {
    path.strip_prefix("seconds.").filter(|part| is_one_second(part))?;
    path.rsplit_once('.').map(|(all, _)| all)
}

/// Which second that is: 7 of `seconds.replies.7`.
pub(crate) fn second_of(path: &str) -> Option<u64> {
    of_one_second(path)?;
    path.rsplit_once('.')?.1.parse().ok()
}

/// As the kernel's headers write them.
fn is_errno(part: &str) -> bool {
    let is_of_it = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit();
    part.len() > 1 && part.starts_with('E') && part.chars().all(is_of_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_no_result_has_is_refused_with_those_that_there_are() {
        let networks = ["large.success".to_owned()];
        for path in [
            "errors_per_s",
            "errors_per_s.timeout",
            "errors_per_s.timeout, connected",
            "errors_per_s.not started",
            "errors_per_s.no port free",
            "errors_per_s.ECONNABORTED",
            "queue_drops_per_s",
            "queue_drops_per_s.SynQ3/4Full",
            "queue_drops_per_s.SYN stage",
            "queue_drops_per_s.ListenDrops, others",
            "kernel.TcpExtListenDrops",
            "verdicts_per_s.drop: SynQFull",
            "serving.found_dead_per_s",
            "visits.page_mean_ms",
            "cpu.softirq",
            "cpu_calls.sendfile64",
            "time_wait.server_tcb_bytes",
            "seconds.replies",
            "seconds.replies.7",
            "attempts",
            "replies_per_s_ci95",
            "response_ms.p99",
            "refusal_ms.deviation",
            "delay_ms.ci95",
            "answered_within_per_s.900",
            "networks.large.success",
            "syns_per_attempt",
            "syns_per_attempt.mean",
            "syns_per_attempt.3",
            "syns_per_attempt.3.errors",
            "cpu_components.net-tcp",
        ] {
            assert_eq!(check(path, &networks), Ok(()), "{path}");
        }
        for (path, of) in [
            ("errors_per_s.timeuot", "\"timeout, connected\""),
            ("errors_per_s.timeout.mean", "\"timeout\""),
            ("errors_per_s.EADDRNOTAVAIL", "\"no port free\", and errnos such as"),
            ("errors_per_s.E", "\"refused\""),
            ("queue_drops_per_s.ListenQFullAtSYN", "\"ListenQFullAtSyn\""),
            ("queue_drops_per_s.ListenDrops", "\"ListenDrops, others\""),
            ("segments.syns_sent", "\"syn_sent\""),
            ("serving.found_dead_pers_s", "\"found_dead_per_s\""),
            ("visits.abandonned_per_s", "\"abandoned_per_s\""),
            ("cpu.soft_irq", "\"softirq\""),
            ("cpu_calls.accept4", "\"accept\""),
            ("time_wait.sever", "\"server\""),
            ("seconds.replied", "\"replies\""),
            ("seconds.replies.last", "one second of each"),
            ("response_ms.p95", "\"p90\", \"p99\""),
            ("refusal_ms.median", "\"p50\""),
            ("replies_per_s.mean", "there are none"),
            ("answered_within_per_s.1000", "\"900\", \"1500\""),
            ("networks.large.succes", "\"large.success\""),
            ("networks.small.success", "\"large.success\""),
            ("syns_per_attempt.three", "\"mean\", and those of so many SYNs"),
            ("syns_per_attempt.3.replies", "\"3.errors\""),
        ] {
            let told = check(path, &networks).unwrap_err();
            let (group, part) = path.split_once('.').unwrap();
            let begins = format!("{group} has no part \"{part}\"; there are ");
            assert!(told.starts_with(&begins) && told.contains(of), "{told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }

    /// It would be unknown in every result, and drawn as what was not measured.
    #[test]
    fn what_has_no_sum_is_asked_for_by_its_parts() {
        for group in SUMS {
            assert_eq!((check(group, &[]), check_bars(group, &[])), (Ok(()), Ok(())), "{group}");
        }
        for group in SUMLESS {
            let told = check(group, &[]).unwrap_err();
            assert!(told.starts_with(&format!("{group} has no sum: ask for a part")), "{told}");
        }
        for path in ["response_ms", "time_wait", "replies_per_s", "cpu.user", "seconds.replies"] {
            let told = check_bars(path, &[]).unwrap_err();
            let begins =
                format!("bars are of a group that has a sum, and not of {path}; there are cpu,");
            assert!(told.starts_with(&begins), "{told}");
        }
        let told = check_bars("cpu.soft_irq", &[]).unwrap_err();
        assert!(told.starts_with("cpu has no part"), "{told}");
    }

    #[test]
    fn a_number_that_no_result_has_is_refused_with_the_one_that_is_meant() {
        for (path, told) in [
            ("reply_per_s", "a result has no \"reply_per_s\"; \"replies_per_s\" may be meant"),
            (
                "verdicts_per_s.drop: SynQFul",
                "verdicts_per_s has no part \"drop: SynQFul\"; write a verdict and its reason, as in \
                 \"drop: SynQFull\"",
            ),
        ] {
            assert_eq!(check(path, &[]).unwrap_err(), told);
        }
        let unlike = check("xxxxxxxxxxxx.mean", &[]).unwrap_err();
        assert!(unlike.contains("there are answered_within_per_s, attempts, "), "{unlike}");
    }

    /// Parts are called as those call them who count.
    #[test]
    fn parts_are_called_as_they_are_counted() {
        let counted = |text: &str, from: &str, to: &str| -> Vec<String> {
            let (_, text) = text.split_once(from).unwrap();
            let (text, _) = text.split_once(to).unwrap();
            let mut names: Vec<_> = text.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            names.sort();
            names.dedup();
            names
        };
        let servers = include_str!("../../servers/src/statistics.rs");
        assert_eq!(counted(servers, "fn measures(", ".map("), SERVING);
        let processor = include_str!("../../lab/src/processor.rs");
        assert_eq!(counted(processor, "const MODES", ";\n\n"), CPU);
        let clients = include_str!("../../report/src/operating.rs");
        assert_eq!(counted(clients, "fn visits(", "\n}"), VISITS);
        assert_eq!(counted(clients, "fn seconds(", "\n    }\n"), SECONDS);
        let mut held = counted(clients, "fn time_wait(", "\n}");
        held.extend(counted(clients, "impl HeldByServer {", "\n}"));
        assert_eq!(held, TIME_WAIT);
    }
}
