// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` prints for people.

use std::fmt::{self, Display, Formatter};

use crate::status::{GuardStatus, ListenerStatus, Status};
use crate::time_wait;

impl Display for Status {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        // Nothing is attached where nothing but an agent runs.
        if !self.attached.is_empty() || self.agent.is_none() {
            let who =
                self.daemon_pid.map_or("no daemon: the guard stands alone".to_owned(), |pid| {
                    format!("daemon {pid}")
                });
            writeln!(out, "{who}; attached: {}", self.attached.join(", "))?;
        }
        for guard in &self.guards {
            guard.fmt(out)?;
        }
        if let Some(status) = &self.time_wait {
            out.write_str(&time_wait::table(status))?;
        }
        match &self.agent {
            Some(agent) => out.write_str(&agent.table()),
            None => Ok(()),
        }
    }
}

impl Display for GuardStatus {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let address = self.address.as_deref().unwrap_or("*");
        let what = if self.is_path { "path" } else { self.mechanism.as_str() };
        writeln!(out, "\n{address} port {}: {what} at {}", self.port, self.hook)?;
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
        for (reason, counts) in &self.verdicts {
            for (verdict, count) in counts {
                write_count(out, reason, verdict, *count)?;
            }
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
