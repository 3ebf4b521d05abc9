// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate top`: `status` on a live screen, with what happens a second.

mod screen;
mod watch;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Result};
use crate::{signals, status};
use watch::Watch;

/// How long a key or a signal waits at most.
const GLANCE: Duration = Duration::from_millis(200);

/// How it looks.
#[derive(Args)]
pub struct Arguments {
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
}

/// A terminal that does not answer.
fn terminal_failure(source: io::Error) -> Failure {
    Failure::File {
        path: PathBuf::from("this terminal"),
        source,
        fix: "`tidegate status` needs none".to_owned(),
    }
}

fn ends(key: KeyEvent) -> bool {
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// What is typed, and the screen's new sizes. From a thread of their own: where the terminal has gone
/// crossterm 0.29 looks for them for ever, whatever time it is given.
fn events() -> Result<Receiver<Event>> {
    let (sender, events) = mpsc::channel();
    let read = move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                break;
            }
        }
    };
    thread::Builder::new().spawn(read).map_err(signals::no_thread)?;
    Ok(events)
}

/// What has ended a wait.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// It is time to look again.
    Time,
    /// The screen is another.
    Resized,
    /// No more is wanted.
    All,
}

/// What was typed before is heard also where it is time to look again already: a look may take longer than lies
/// between two.
fn waits(until: Instant, events: &Receiver<Event>, signals: &mut Signals) -> Ended {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if signals.pending().next().is_some() {
            return Ended::All;
        }
        match events.recv_timeout(left.min(GLANCE)) {
            Ok(Event::Key(key)) if ends(key) => return Ended::All,
            Ok(Event::Resize(..)) => return Ended::Resized,
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ended::Time,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            // Nothing can be typed any more.
            Err(RecvTimeoutError::Disconnected) => return Ended::All,
        }
    }
}

fn watch(terminal: &mut DefaultTerminal, every: Duration, signals: &mut Signals) -> Result<()> {
    let (mut watch, events) = (Watch::default(), events()?);
    loop {
        let next = Instant::now() + every;
        watch.see(status::read_if_any()?, Instant::now());
        let mut ended = Ended::Resized;
        while ended == Ended::Resized {
            terminal.draw(|frame| screen::draw(frame, &watch)).map_err(terminal_failure)?;
            ended = waits(next, &events, signals);
        }
        if ended == Ended::All {
            return Ok(());
        }
    }
}

/// Shows it until it is told to end.
pub fn run(arguments: &Arguments) -> Result<()> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::argument(
            "`tidegate top` needs a terminal",
            "`tidegate status` prints the same once",
        ));
    }
    // The terminal is put back whatever ends it.
    let mut signals = signals::hear(&[SIGHUP])?;
    let mut terminal = ratatui::try_init().map_err(terminal_failure)?;
    let ended = watch(&mut terminal, Duration::from_secs(arguments.every), &mut signals);
    ratatui::try_restore().map_err(terminal_failure)?;
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_typed_while_it_looked_is_heard_though_it_is_late() {
        let none: [i32; 0] = [];
        let mut signals = Signals::new(none).unwrap();
        let mut late = |typed: &[Event]| {
            let (sender, events) = mpsc::channel();
            typed.iter().for_each(|event| sender.send(event.clone()).unwrap());
            waits(Instant::now(), &events, &mut signals)
        };
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        let other = key(KeyCode::Char('x'), KeyModifiers::NONE);
        assert_eq!(late(&[]), Ended::Time);
        assert_eq!(late(std::slice::from_ref(&other)), Ended::Time);
        assert_eq!(late(&[Event::Resize(80, 24)]), Ended::Resized);
        for end in [
            key(KeyCode::Char('q'), KeyModifiers::NONE),
            key(KeyCode::Esc, KeyModifiers::NONE),
            key(KeyCode::Char('c'), KeyModifiers::CONTROL),
        ] {
            assert_eq!(late(&[other.clone(), end.clone()]), Ended::All, "{end:?}");
        }
    }
}
