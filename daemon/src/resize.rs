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
use crate::run::slots;

/// A socket that could not be taken is tried again after this long: every process is looked at for it.
const AGAIN: Duration = Duration::from_secs(10);

/// Remembered in place of a backlog while it is being changed: whoever is killed meanwhile may leave the one that
/// was there or the new one, and either is ours. No socket has it: listen() takes an int.
const CHANGING: u32 = u32::MAX;

/// So many sockets are told of for each reason, the others by their number: any user may open a thousand.
const TOLD: usize = 8;

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
    let is_unfinished = known.is_some_and(|known| known.ours == CHANGING);
    let ours = known.filter(|known| is_unfinished || known.ours == limit);
    match (wanted, known) {
        (Some(wanted), _) if wanted == limit && !is_unfinished => Step::Nothing,
        (Some(wanted), _) => {
            let before = ours.map_or(limit, |known| known.before);
            Step::Resize(tg_resized { before, ours: wanted })
        }
        (None, Some(known)) if ours.is_some() => Step::PutBack(known.before),
        (None, Some(_)) => Step::Forget,
        (None, None) => Step::Nothing,
    }
}

/// What a listening socket's backlog should be; the longest, where its SYNs fall under several guards.
fn wanted(guards: &[Guarded], row: &tg_listener_row, most: u32) -> Option<u32> {
    let judging = guards.iter().filter(|g| g.judges(row, guards));
    judging.filter_map(|g| g.backlog).max().map(|backlog| backlog.min(most))
}

/// The sockets, by cookie, whose backlog is changed where one is wanted: what it was before can be remembered of no
/// more. Who has opened a thousand takes no place from another address.
fn chosen(guards: &[Guarded], rows: &[tg_listener_row]) -> BTreeSet<u64> {
    let wanted = rows.iter().filter_map(|row| {
        let guard = guards.iter().position(|g| g.backlog.is_some() && g.judges(row, guards))?;
        Some(((guard as u32, row.socket_cookie), row.address()))
    });
    let owners = slots::owners(wanted, TG_SLOTS as usize);
    owners.into_iter().map(|(_, cookie)| cookie).collect()
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

/// Sockets whose backlog could not be changed, by what kept it from being; the loopback's last, for on how many of its
/// addresses there are some is any user's to say.
#[derive(Default)]
struct Unchanged(BTreeMap<String, BTreeSet<(bool, String)>>);

impl Unchanged {
    fn add(&mut self, row: &tg_listener_row, why: String) {
        let address = SocketAddr::new(row.address(), row.port as u16);
        let told = format!("of {address} stays {}", row.listen_max);
        self.0.entry(why).or_default().insert((row.address().is_loopback(), told));
    }

    /// The first of them, and how many more there are.
    fn joined(sockets: &BTreeSet<(bool, String)>) -> String {
        let mut told: Vec<String> =
            sockets.iter().take(TOLD).map(|(_, socket)| socket.clone()).collect();
        if sockets.len() > TOLD {
            told.push(format!("of {} more stays as it was", sockets.len() - TOLD));
        }
        told.join(", ")
    }

    /// All of them in one sentence.
    fn told(&self, missing: &[&str]) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let (stay, fix) = match missing {
            [] => {
                let each =
                    self.0.iter().map(|(why, sockets)| format!("{}: {why}", Self::joined(sockets)));
                let fix = "take resize out, or have the application ask for as much itself";
                (each.collect::<Vec<_>>().join(", "), fix)
            }
            missing => {
                let all = Self::joined(&self.0.values().flatten().cloned().collect());
                let fix = "grant it (in a unit CapabilityBoundingSet=), or take resize out";
                (format!("{all}: this daemon lacks {}", missing.join(", ")), fix)
            }
        };
        Err(Failure::argument(format!("the backlog {stay}"), fix))
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
        let cookies: BTreeSet<u64> = there.iter().map(|row| row.socket_cookie).collect();
        for cookie in known.keys().filter(|cookie| !cookies.contains(cookie)) {
            resized::forget(programs, *cookie)?;
        }
        self.failed.retain(|cookie, _| cookies.contains(cookie));
        let (most, chosen) = (host::somaxconn(), chosen(guards, there));
        let of = |row: &tg_listener_row, limit: u32| {
            let wanted = wanted(guards, row, most);
            let wanted = wanted.filter(|_| chosen.contains(&row.socket_cookie));
            step(wanted, limit, known.get(&row.socket_cookie))
        };
        let is_due = |row: &&tg_listener_row| of(row, row.listen_max) != Step::Nothing;
        let due = rows.iter().filter(is_due).filter(|row| self.may(row));
        let (begin, end): (Vec<_>, Vec<_>) =
            due.partition(|row| matches!(of(row, row.listen_max), Step::Resize(_)));
        let mut unchanged = Unchanged::default();
        self.carry_out(programs, &end, &known, of, &mut unchanged);
        // Whose place another is to have gives it up, also where it cannot be put back: else whoever has hidden its
        // sockets, on the way from one process to another, would keep it.
        for row in end.iter().filter(|row| self.failed.contains_key(&row.socket_cookie)) {
            if wanted(guards, row, most).is_some() {
                let _ = resized::forget(programs, row.socket_cookie);
            }
        }
        self.carry_out(programs, &begin, &known, of, &mut unchanged);
        unchanged.told(&host::missing_to_resize())
    }

    fn may(&self, row: &tg_listener_row) -> bool {
        self.failed.get(&row.socket_cookie).is_none_or(|tried| tried.elapsed() >= AGAIN)
    }

    /// What cannot be done is told of, and does not keep the others from being done.
    /// `step` is what is to be done about a socket with such a backlog: its application may have said
    /// another since it was looked at.
    fn carry_out(
        &mut self,
        programs: &Programs,
        due: &[&tg_listener_row],
        known: &BTreeMap<u64, tg_resized>,
        step: impl Fn(&tg_listener_row, u32) -> Step,
        unchanged: &mut Unchanged,
    ) {
        if due.is_empty() {
            return;
        }
        let by_inode: BTreeMap<u64, &tg_listener_row> =
            due.iter().map(|row| (row.inode, *row)).collect();
        let mut done = BTreeMap::new();
        let refused = backlog::take(&by_inode.keys().copied().collect(), |inode, socket| {
            let row = by_inode[&inode];
            let changed = socket.backlog().map_err(|error| error.to_string()).and_then(|limit| {
                let before = known.get(&row.socket_cookie);
                change(programs, row, step(row, limit), before, &socket)
            });
            done.insert(inode, changed);
        });
        done.extend(refused.into_iter().map(|(inode, error)| (inode, Err(error.to_string()))));
        for row in due {
            let nobody = || Err("no process here has the socket".to_owned());
            let Err(why) = done.remove(&row.inode).unwrap_or_else(nobody) else {
                self.failed.remove(&row.socket_cookie);
                continue;
            };
            // That it fails again is not told again.
            if self.failed.insert(row.socket_cookie, Instant::now()).is_none() {
                unchanged.add(row, why);
            }
        }
    }
}

/// Does it to a socket. Else why not.
fn change(
    programs: &Programs,
    row: &tg_listener_row,
    step: Step,
    known: Option<&tg_resized>,
    socket: &Listening,
) -> std::result::Result<(), String> {
    let cookie = row.socket_cookie;
    apply(
        step,
        known,
        |backlog| socket.set_backlog(backlog).map_err(|e| e.to_string()),
        |resized| resized::keep(programs, cookie, resized).map_err(|e| e.to_string()),
        || resized::forget(programs, cookie).map_err(|e| e.to_string()),
    )
}

/// What was before is remembered first, and what is ours once it is done, which is what the kernel has granted:
/// whoever is killed in between has lost nothing.
fn apply(
    step: Step,
    known: Option<&tg_resized>,
    mut set: impl FnMut(u32) -> std::result::Result<u32, String>,
    mut keep: impl FnMut(&tg_resized) -> std::result::Result<(), String>,
    mut forget: impl FnMut() -> std::result::Result<(), String>,
) -> std::result::Result<(), String> {
    match step {
        Step::Nothing => Ok(()),
        Step::Resize(resized) => {
            keep(&tg_resized { ours: CHANGING, ..resized })?;
            match set(resized.ours) {
                Ok(granted) => keep(&tg_resized { ours: granted, ..resized }),
                Err(why) => {
                    // Else what we gave it before would be taken for the application's own.
                    known.map_or_else(forget, keep)?;
                    Err(why)
                }
            }
        }
        Step::PutBack(before) => set(before).and_then(|_| forget()),
        Step::Forget => forget(),
    }
}

/// What was opened to put backlogs back; where it could not be, that is told, and they stay.
pub fn known(opened: tidegate_datapath::Result<Option<Programs>>) -> Option<Programs> {
    opened.unwrap_or_else(|error| {
        tell(&format!("backlogs that it changed stay: {}", Failure::from(error)));
        None
    })
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
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn the_applications_own_backlog_is_what_it_said_last() {
        let resized = |before, ours| tg_resized { before, ours };
        let (known, changing) = (resized(64, 512), resized(64, CHANGING));
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
            // Killed while it was changed, from 512 to 300: whichever it has is ours.
            (Some(300), 512, Some(&changing), Step::Resize(resized(64, 300))),
            (Some(300), 300, Some(&changing), Step::Resize(resized(64, 300))),
            (None, 512, Some(&changing), Step::PutBack(64)),
            (None, 300, Some(&changing), Step::PutBack(64)),
        ] {
            assert_eq!(step(wanted, limit, known), expected, "{wanted:?}, now {limit}");
        }
    }

    /// A socket, and what is remembered of it.
    #[derive(Clone, Copy)]
    struct Kept {
        limit: u32,
        known: Option<tg_resized>,
    }

    impl Kept {
        /// Follows what is wanted until it is killed, before the call of that number.
        fn follow(&mut self, wanted: Option<u32>, killed_at: usize) {
            let (step, known) = (step(wanted, self.limit, self.known.as_ref()), self.known);
            let (calls, state) = (Cell::new(0), RefCell::new(*self));
            let call = |change: &dyn Fn(&mut Kept)| {
                calls.set(calls.get() + 1);
                if calls.get() <= killed_at {
                    change(&mut state.borrow_mut());
                }
                Ok(())
            };
            let set = |limit| call(&|kept| kept.limit = limit).map(|()| limit);
            let keep = |known: &tg_resized| call(&|kept| kept.known = Some(*known));
            let forget = || call(&|kept| kept.known = None);
            apply(step, known.as_ref(), set, keep, forget).expect("nothing fails");
            *self = state.into_inner();
        }
    }

    #[test]
    fn whenever_it_is_killed_the_next_one_knows_the_applications_own() {
        const NEVER: usize = usize::MAX;
        for first in [None, Some(512)] {
            for killed_at in 0..4 {
                let mut kept = Kept { limit: 64, known: None };
                kept.follow(first, NEVER);
                kept.follow(Some(300), killed_at);
                let mut ended = kept;
                ended.follow(None, NEVER);
                assert_eq!((ended.limit, ended.known.is_some()), (64, false), "{killed_at}");
                kept.follow(Some(300), NEVER);
                assert_eq!(step(Some(300), kept.limit, kept.known.as_ref()), Step::Nothing);
                kept.follow(None, killed_at);
                kept.follow(None, NEVER);
                assert_eq!((kept.limit, kept.known.is_some()), (64, false), "{killed_at}");
            }
        }
    }

    /// `net.core.somaxconn` was lowered since it was read, or cannot be read.
    #[test]
    fn what_is_ours_is_what_the_kernel_has_granted() {
        let kept = Cell::new(None);
        let grant = |asked: u32| Ok(asked.min(256));
        let keep = |resized: &tg_resized| {
            kept.set(Some(*resized));
            Ok(())
        };
        let asked = step(Some(512), 64, None);
        apply(asked, None, grant, keep, || Ok(())).expect("nothing fails");
        let known = kept.take();
        assert_eq!(step(None, 256, known.as_ref()), Step::PutBack(64));
        // Nor is it taken for the application's own by whoever asks again, or for less.
        for again in [256, 512] {
            apply(step(Some(again), 256, known.as_ref()), known.as_ref(), grant, keep, || Ok(()))
                .expect("nothing fails");
            let known = kept.take().or(known);
            assert_eq!(step(None, 256, known.as_ref()), Step::PutBack(64), "{again}");
        }
    }

    #[test]
    fn what_could_not_be_changed_is_known_as_it_was() {
        for known in [None, Some(tg_resized { before: 64, ours: 512 })] {
            let kept = RefCell::new(known);
            let resize = Step::Resize(tg_resized { before: 64, ours: 300 });
            let keep = |resized: &tg_resized| {
                *kept.borrow_mut() = Some(*resized);
                Ok(())
            };
            let forget = || {
                *kept.borrow_mut() = None;
                Ok(())
            };
            let done = apply(resize, known.as_ref(), |_| Err("busy".to_owned()), keep, forget);
            assert_eq!((done, kept.into_inner()), (Err("busy".to_owned()), known));
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

    #[test]
    fn a_socket_of_an_address_is_its_own_guards_to_resize() {
        let at = |address: &str, backlog| Guarded {
            address: (address != "*").then(|| address.parse().unwrap()),
            port: 443,
            backlog,
            ..Default::default()
        };
        let bound = |address: [u8; 4]| tg_listener_row {
            addr: [u32::from_ne_bytes(address), 0, 0, 0],
            port: 443,
            ..Default::default()
        };
        let own = bound([192, 0, 2, 1]);
        for (every, of_it, expected) in [
            (Some(1000), None, None),
            (Some(1000), Some(600), Some(600)),
            (None, Some(600), Some(600)),
        ] {
            let guards = [at("*", every), at("192.0.2.1", of_it)];
            assert_eq!(wanted(&guards, &own, 4096), expected);
            // Of a socket of every address either may be asked, and of another address the first.
            assert_eq!(wanted(&guards, &bound([0; 4]), 4096), every.max(of_it));
            assert_eq!(wanted(&guards, &bound([192, 0, 2, 2]), 4096), every);
        }
    }

    #[test]
    fn who_opens_a_thousand_sockets_keeps_no_application_of_another_address_from_its_backlog() {
        let row = |address: [u8; 4], socket_cookie| tg_listener_row {
            addr: [u32::from_ne_bytes(address), 0, 0, 0],
            port: 8080,
            socket_cookie,
            ..Default::default()
        };
        let guards = [Guarded { port: 8080, backlog: Some(512), ..Default::default() }];
        let crowd = (0..1100).map(|cookie| row([127, 0, 0, 1 + (cookie % 250) as u8], cookie));
        let application = row([192, 0, 2, 1], 5000);
        let rows: Vec<_> = crowd.chain([application]).collect();
        let owners = chosen(&guards, &rows);
        assert_eq!(owners.len(), TG_SLOTS as usize, "of no more it can be remembered");
        assert!(owners.contains(&5000));
        assert!(owners.contains(&0) && !owners.contains(&1099), "the older come first");
        assert!(chosen(&[Guarded { port: 8080, ..Default::default() }], &rows).is_empty());
    }

    #[test]
    fn of_many_sockets_the_first_are_told_of_and_the_loopbacks_last() {
        let row = |address: [u8; 4], port| tg_listener_row {
            addr: [u32::from_ne_bytes(address), 0, 0, 0],
            port,
            listen_max: 64,
            ..Default::default()
        };
        let mut unchanged = Unchanged::default();
        (0..1100).for_each(|n| unchanged.add(&row([127, 0, 0, 1], 1024 + n), "gone".to_owned()));
        unchanged.add(&row([192, 0, 2, 1], 8080), "gone".to_owned());
        for missing in [&[][..], &["CAP_SYS_PTRACE"]] {
            let told = unchanged.told(missing).unwrap_err().to_string();
            assert!(told.starts_with("the backlog of 192.0.2.1:8080 stays 64, of 127.0"), "{told}");
            assert!(told.contains(", of 1093 more stays as it was: "), "{told}");
            assert!(told.len() < 512, "{told}");
        }
    }

    #[test]
    fn every_socket_that_stays_as_it_was_is_told_of_in_one_line() {
        let row = |port, listen_max| tg_listener_row { port, listen_max, ..Default::default() };
        let mut unchanged = Unchanged::default();
        assert!(unchanged.told(&["CAP_SYS_PTRACE"]).is_ok());
        // Workers that share a port are one of it.
        for (port, listen_max, why) in [(80, 64, "gone"), (80, 64, "gone"), (443, 128, "busy")] {
            unchanged.add(&row(port, listen_max), why.to_owned());
        }
        let told = |missing: &[&str]| unchanged.told(missing).unwrap_err().to_string();
        assert_eq!(
            told(&["CAP_SYS_PTRACE"]),
            "the backlog of 0.0.0.0:443 stays 128, of 0.0.0.0:80 stays 64: this daemon lacks \
             CAP_SYS_PTRACE; grant it (in a unit CapabilityBoundingSet=), or take resize out"
        );
        assert_eq!(
            told(&[]),
            "the backlog of 0.0.0.0:443 stays 128: busy, of 0.0.0.0:80 stays 64: gone; \
             take resize out, or have the application ask for as much itself"
        );
    }
}
