// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` prints for people.

use std::fmt::{self, Display, Formatter};

use crate::status::{GuardStatus, ListenerStatus, Status, each};

impl Display for Status {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        // Nothing is attached where nothing but an agent runs.
        if !self.attached.is_empty() || self.agent.is_none() {
            let none = || "no daemon: the guard stands alone".to_owned();
            let who = self.daemon().unwrap_or_else(none);
            let none = self.attached.is_empty();
            let links = if none { "nothing".to_owned() } else { self.attached.join(", ") };
            writeln!(out, "{who}; attached: {links}")?;
        }
        for guard in &self.guards {
            guard.fmt(out)?;
        }
        if let Some(time_wait) = &self.time_wait {
            time_wait.fmt(out)?;
        }
        match &self.agent {
            Some(agent) => out.write_str(&agent.table()),
            None => Ok(()),
        }
    }
}

impl GuardStatus {
    /// What is guarded, how, and where that is decided.
    pub fn title(&self) -> String {
        let address = self.address.as_deref().unwrap_or("*");
        let what = if self.is_path { "path" } else { self.mechanism.as_str() };
        format!("{address} port {}: {what} at {}", self.port, self.hook)
    }
}

impl Display for GuardStatus {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n{}", self.title())?;
        let notice = self.notice.iter().map(|notice| notice.line());
        let shed = self.shed.iter().flat_map(|shed| shed.lines());
        for line in self.fin.line().into_iter().chain(notice).chain(shed) {
            writeln!(out, "  {line}")?;
        }
        if let Some(shed) = self.shed.as_ref().filter(|shed| shed.spared > 0) {
            write_count(out, "preferred proxies", "pass", shed.spared)?;
        }
        if self.listeners.is_empty() && !self.is_path {
            writeln!(out, "  nothing listens there now")?;
        }
        for listener in &self.listeners {
            listener.fmt(out)?;
        }
        for (reason, verdict, count) in each(&self.verdicts) {
            write_count(out, reason, verdict, count)?;
        }
        if self.reservations_cleaned > 0 {
            write_count(out, "reservations cleaned", "", self.reservations_cleaned)?;
        }
        Ok(())
    }
}

/// A line of a guard's counts.
fn write_count(out: &mut Formatter<'_>, what: &str, verdict: &str, count: u64) -> fmt::Result {
    writeln!(out, "    {what:<28} {verdict:<7} {count:>12}")
}

impl Display for ListenerStatus {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  {:<28} listen queue {:>5} of {:<5}  SYN queue {:>5} of {:<5}  kernel drops {}",
            self.address,
            self.listen_queue.length,
            self.listen_queue.limit,
            self.syn_queue.length,
            self.syn_queue.limit,
            self.kernel_drops,
        )?;
        let lines = [
            self.limits_line(),
            self.overload.as_ref().map(|overload| overload.line()),
            self.accepts.as_ref().map(|accepts| accepts.line()),
            self.fair_share.as_ref().map(|share| share.line()),
        ];
        lines.into_iter().flatten().try_for_each(|line| writeln!(out, "    {line}"))
    }
}

impl ListenerStatus {
    /// The limits of its listen queue, where there is another than the application's own.
    fn limits_line(&self) -> Option<String> {
        let places = self.places.map(|places| format!("{places} places for new SYNs"));
        let before = self.backlog_before.map(|before| format!("resized from {before}"));
        let both: Vec<String> = places.into_iter().chain(before).collect();
        (!both.is_empty()).then(|| both.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::OverloadStatus;
    use crate::status::example::{self, persistent};

    fn guard(listeners: Vec<ListenerStatus>) -> GuardStatus {
        let counted =
            [("Room", "pass", 6000), ("WaitLimit", "drop", 20), ("WaitLimit", "reset", 1234)];
        example::guard(listeners, &counted)
    }

    /// From the host to the guard, its sockets, what each of them knows, and what was counted.
    #[test]
    fn what_an_operator_reads_goes_from_the_whole_to_its_parts() {
        let listener = ListenerStatus {
            places: Some(400),
            backlog_before: Some(128),
            ..example::listener(&[])
        };
        let guards = vec![guard(vec![listener])];
        let attached = vec!["driver-2".to_owned(), "tcp-ipv4".to_owned()];
        let status = Status { daemon_pid: Some(42), attached, guards, ..Status::default() };
        assert_eq!(
            status.to_string(),
            "\
daemon 42; attached: driver-2, tcp-ipv4

* port 443: auto at driver
  192.0.2.1:443                listen queue    12 of 511    SYN queue     3 of 511    kernel drops 0
    400 places for new SYNs, resized from 128
    persistent: 9000/s new, 6500/s drained; 700 left to come again, of 800 at most; 16 places
    Room                         pass            6000
    WaitLimit                    drop              20
    WaitLimit                    reset           1234
"
        );
    }

    #[test]
    fn a_daemon_whose_number_is_not_known_runs_all_the_same() {
        let status = Status { daemon_running: true, ..Status::default() };
        assert_eq!(status.to_string(), "a daemon whose /run is another; attached: nothing\n");
    }

    /// Nothing is said of what nobody asked for, and the daemon may be gone.
    #[test]
    fn a_guard_without_daemon_or_sockets_says_so() {
        let status = Status { guards: vec![guard(Vec::new())], ..Status::default() };
        let text = status.to_string();
        assert!(
            text.starts_with("no daemon: the guard stands alone; attached: nothing\n"),
            "{text}"
        );
        assert!(text.contains("\n  nothing listens there now\n"), "{text}");
    }

    /// In calm there is nothing to tell; in a burst nobody is held to a number yet.
    #[test]
    fn a_phase_tells_what_holds_in_it() {
        let line = |phase| OverloadStatus { phase, places: None, ..persistent() }.line();
        let calm = OverloadStatus { new_per_s: None, drain_per_s: None, ..persistent() };
        assert_eq!(OverloadStatus { phase: "calm", ..calm }.line(), "calm");
        assert_eq!(line("burst"), "burst: 9000/s new, 6500/s drained; 700 left to come again");
        assert!(line("recovering").ends_with("700 left to come again, of 800 at most"));
    }
}
