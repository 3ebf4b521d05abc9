// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applications' backlogs, where the configuration says that they may be changed: `resize = true`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_datapath::backlog::{self, Listening};
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::raw::*;
use tidegate_datapath::{resized, sockets};

use crate::failure::{Failure, Result, tell};
use crate::host;

/// A socket that could not be taken is tried again after this long: every process is looked at for it.
const AGAIN: Duration = Duration::from_secs(10);

/// What is to be done about one listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    Resize(tg_resized),
    PutBack(u32),
    /// The application has changed it itself since: it is its own again.
    Forget,
}

/// `limit` is the backlog that the kernel has now, `known` what we remember of having changed it.
fn step(wanted: Option<u32>, limit: u32, known: Option<&tg_resized>) -> Step {
    let ours = known.filter(|known| known.ours == limit);
    match (wanted, known) {
        (Some(wanted), _) if wanted == limit => Step::Nothing,
        (Some(wanted), _) => {
            let before = ours.map_or(limit, |known| known.before);
            Step::Resize(tg_resized { before, ours: wanted })
        }
        (None, Some(known)) if ours.is_some() => Step::PutBack(known.before),
        (None, Some(_)) => Step::Forget,
        (None, None) => Step::Nothing,
    }
}

/// What a listening socket's backlog should be; the longest, where several guards cover it.
fn wanted(guards: &[Guarded], row: &tg_listener_row, most: u32) -> Option<u32> {
    let covering = guards.iter().filter(|g| g.covers(row));
    covering.filter_map(|g| g.backlog).max().map(|backlog| backlog.min(most))
}

/// What is announced of it, behind all else.
pub fn described(guarded: &Guarded) -> String {
    let Some(backlog) = guarded.backlog else { return String::new() };
    match host::somaxconn() {
        most if most < backlog => format!(
            ", backlog {most}: net.core.somaxconn allows no more, and {backlog} were asked for"
        ),
        _ => format!(", backlog {backlog}"),
    }
}

fn failed(row: &tg_listener_row, why: &str) -> Failure {
    let address = SocketAddr::new(row.address(), row.port as u16);
    let stays = format!("the backlog of {address} stays {}", row.listen_max);
    match host::missing_to_resize()[..] {
        [] => Failure::argument(
            format!("{stays}: {why}"),
            "take resize out, or have the application ask for as much itself",
        ),
        ref missing => Failure::argument(
            format!("{stays}: this daemon lacks {}", missing.join(", ")),
            "grant it (in a unit CapabilityBoundingSet=), or take resize out",
        ),
    }
}

/// Keeps backlogs as the configuration wants them.
#[derive(Default)]
pub struct Resizer {
    /// Sockets that could not be taken, by cookie, and when that was tried.
    failed: BTreeMap<u64, Instant>,
}

impl Resizer {
    /// Gives new listening sockets the backlog that is wanted, and those that nothing is wanted of any
    /// more their own. What a backlog was before is forgotten of sockets that are not `there`, which holds
    /// `rows` and may hold more.
    pub fn follow(
        &mut self,
        programs: &Programs,
        guards: &[Guarded],
        rows: &[tg_listener_row],
        there: &[tg_listener_row],
    ) -> Result<()> {
        let known = resized::all(programs);
        if known.is_empty() && guards.iter().all(|g| g.backlog.is_none()) {
            return Ok(());
        }
        for cookie in known.keys().filter(|c| !there.iter().any(|row| row.socket_cookie == **c)) {
            resized::forget(programs, *cookie)?;
        }
        let most = host::somaxconn();
        let of = |row: &tg_listener_row| {
            step(wanted(guards, row, most), row.listen_max, known.get(&row.socket_cookie))
        };
        let steps = rows.iter().map(|row| (row, of(row)));
        let steps: Vec<_> = steps.filter(|(row, s)| *s != Step::Nothing && self.may(row)).collect();
        self.carry_out(programs, &steps)
    }

    fn may(&self, row: &tg_listener_row) -> bool {
        self.failed.get(&row.socket_cookie).is_none_or(|tried| tried.elapsed() >= AGAIN)
    }

    /// The first that cannot be done is told of, and does not keep the others from being done.
    fn carry_out(&mut self, programs: &Programs, steps: &[(&tg_listener_row, Step)]) -> Result<()> {
        let inodes: BTreeSet<u64> = steps.iter().map(|(row, _)| row.inode).collect();
        if inodes.is_empty() {
            return Ok(());
        }
        let taken = backlog::take(&inodes);
        let mut first = Ok(());
        for (row, step) in steps {
            let done = match taken.get(&row.inode) {
                Some(Ok(socket)) => change(programs, row, *step, socket),
                Some(Err(error)) => Err(failed(row, &error.to_string())),
                None => Err(failed(row, "no process here has the socket")),
            };
            let Err(failure) = done else {
                self.failed.remove(&row.socket_cookie);
                continue;
            };
            // That it fails again is not told again.
            if self.failed.insert(row.socket_cookie, Instant::now()).is_none() {
                first = first.and(Err(failure));
            }
        }
        first
    }
}

/// What was before is remembered first: whoever is killed in between has changed nothing.
fn change(
    programs: &Programs,
    row: &tg_listener_row,
    step: Step,
    socket: &Listening,
) -> Result<()> {
    let set = |backlog| socket.set_backlog(backlog).map_err(|e| failed(row, &e.to_string()));
    match step {
        Step::Nothing => Ok(()),
        Step::Resize(resized) => {
            resized::keep(programs, row.socket_cookie, &resized)?;
            set(resized.ours)
        }
        Step::PutBack(before) => {
            set(before)?;
            Ok(resized::forget(programs, row.socket_cookie)?)
        }
        Step::Forget => Ok(resized::forget(programs, row.socket_cookie)?),
    }
}

/// Every backlog that we changed is the application's own again: when the guard is taken down, which
/// nothing here keeps it from.
pub fn put_back(programs: &Programs) {
    if resized::all(programs).is_empty() {
        return;
    }
    let rows = sockets::listeners_by_two_looks(programs).map_err(Failure::from);
    let done = rows.and_then(|rows| Resizer::default().follow(programs, &[], &rows, &rows));
    if let Err(failure) = done {
        tell(&failure.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_applications_own_backlog_is_what_it_said_last() {
        let resized = |before, ours| tg_resized { before, ours };
        let known = resized(64, 512);
        for (wanted, limit, known, expected) in [
            (None, 64, None, Step::Nothing),
            (Some(512), 64, None, Step::Resize(resized(64, 512))),
            (Some(512), 512, Some(&known), Step::Nothing),
            // The configuration wants another one, or none any more.
            (Some(700), 512, Some(&known), Step::Resize(resized(64, 700))),
            (None, 512, Some(&known), Step::PutBack(64)),
            // The application has called listen() again.
            (Some(512), 128, Some(&known), Step::Resize(resized(128, 512))),
            (None, 128, Some(&known), Step::Forget),
            // Killed after it was remembered, and before it was done.
            (Some(512), 64, Some(&known), Step::Resize(resized(64, 512))),
            (None, 64, Some(&known), Step::Forget),
        ] {
            assert_eq!(step(wanted, limit, known), expected, "{wanted:?}, now {limit}");
        }
    }

    #[test]
    fn the_longest_backlog_counts_and_no_more_than_is_granted() {
        let row = tg_listener_row { port: 80, ..Default::default() };
        let guarded = |backlog| Guarded { port: 80, backlog, ..Default::default() };
        assert_eq!(wanted(&[guarded(None)], &row, 4096), None);
        assert_eq!(wanted(&[guarded(Some(9)), guarded(Some(99))], &row, 4096), Some(99));
        assert_eq!(wanted(&[guarded(Some(10_000))], &row, 4096), Some(4096));
        let path = Guarded { is_path: true, ..guarded(Some(9)) };
        assert_eq!(wanted(&[path], &row, 4096), None);
    }
}
