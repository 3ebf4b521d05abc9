// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a daemon says, written by threads of their own, one for each stream: whoever reads it may have stopped
//! reading, and a full pipe or a stopped terminal is to keep no daemon from following its host, or from ending.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// So much may wait to be written, which is twice what the ring of refusals holds; what finds no room is counted.
const WAITING_MOST_BYTES: usize = 1 << 20;
/// When the process ends, what still waits has this long.
const END_WITHIN: Duration = Duration::from_secs(1);
/// What is told of lines that found no room, before their number.
const LOST: &str = "tidegate: lines that nobody read are missing here: ";

static OUTPUT: OnceLock<Arc<Writer>> = OnceLock::new();
static ERRORS: OnceLock<Arc<Writer>> = OnceLock::new();

/// What is to be written, and what has been lost.
#[derive(Default)]
struct Waiting {
    texts: VecDeque<String>,
    bytes: usize,
    /// Lines that found no room, and are not told of yet.
    lost: usize,
    /// One has been taken out, and is not written yet.
    is_writing: bool,
}

impl Waiting {
    /// A text that is longer than there is room for has room where nothing waits.
    fn add(&mut self, text: String) {
        if !self.texts.is_empty() && self.bytes + text.len() > WAITING_MOST_BYTES {
            self.lost += text.lines().count();
            return;
        }
        self.bytes += text.len();
        self.texts.push_back(text);
    }

    /// The next to be written. What was lost is told of when nothing else waits.
    fn next(&mut self) -> Option<String> {
        if let Some(text) = self.texts.pop_front() {
            self.bytes -= text.len();
            return Some(text);
        }
        match std::mem::take(&mut self.lost) {
            0 => None,
            lost => Some(format!("{LOST}{lost}\n")),
        }
    }

    fn is_written(&self) -> bool {
        self.texts.is_empty() && self.lost == 0 && !self.is_writing
    }
}

/// Writes what it is given, one text after the other.
#[derive(Default)]
struct Writer {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Writer {
    /// Writes to `stream` for as long as the process runs.
    ///
    /// # Errors
    /// Where the process may have no more threads.
    fn start(stream: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let writer = Arc::new(Writer::default());
        let writes = Arc::clone(&writer);
        thread::Builder::new().spawn(move || writes.write_to(stream))?;
        Ok(writer)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: String) {
        if text.is_empty() {
            return;
        }
        self.waiting().add(text);
        self.changed.notify_all();
    }

    fn write_to(&self, mut stream: impl Write) {
        loop {
            write(&mut stream, &self.taken());
            self.waiting().is_writing = false;
            self.changed.notify_all();
        }
    }

    /// The next text, when there is one.
    fn taken(&self) -> String {
        let mut waiting = self.waiting();
        loop {
            if let Some(text) = waiting.next() {
                waiting.is_writing = true;
                return text;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns when all is written, at the latest at `deadline`.
    fn finish(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let is_left = |waiting: &mut Waiting| !waiting.is_written();
        drop(self.changed.wait_timeout_while(self.waiting(), left, is_left));
    }
}

/// Whoever started us may have gone, and the pipe with them: no reason to stop.
fn write(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

/// From here on nobody waits until what this process says is written; but where it may have no more threads.
pub fn start() {
    let starts = |writer: &OnceLock<Arc<Writer>>, started: io::Result<Arc<Writer>>| {
        if let Ok(started) = started {
            let _ = writer.set(started);
        }
    };
    starts(&OUTPUT, Writer::start(io::stdout()));
    starts(&ERRORS, Writer::start(io::stderr()));
}

fn say(writer: &OnceLock<Arc<Writer>>, mut stream: impl Write, lines: String) {
    match writer.get() {
        Some(writer) => writer.say(lines),
        None => write(&mut stream, &lines),
    }
}

/// Says lines on standard output, each with its end.
pub fn print(lines: String) {
    say(&OUTPUT, io::stdout(), lines);
}

/// The same on standard error.
pub fn print_error(lines: String) {
    say(&ERRORS, io::stderr(), lines);
}

/// Has what still waits written, where that does not take long: the last that a process does.
pub fn finish() {
    let deadline = Instant::now() + END_WITHIN;
    for writer in [&OUTPUT, &ERRORS].into_iter().filter_map(|writer| writer.get()) {
        writer.finish(deadline);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn who_does_not_read_keeps_nobody_waiting_and_is_told_later_how_much_is_missing() {
        let (reader, stream) = io::pipe().unwrap();
        let writer = Writer::start(stream).unwrap();
        // Four times what may wait, and far more than a pipe holds.
        let line = format!("{}\n", "x".repeat(1023));
        let said = 4 * WAITING_MOST_BYTES / line.len();
        for _ in 0..said {
            writer.say(line.clone());
        }
        let begun = Instant::now();
        writer.finish(begun + Duration::from_millis(50));
        assert!(begun.elapsed() < Duration::from_secs(10), "nor from ending");
        let mut read = 0;
        for told in BufReader::new(reader).lines() {
            let told = told.unwrap();
            if let Some(lost) = told.strip_prefix(LOST) {
                assert_eq!(read + lost.parse::<usize>().unwrap(), said);
                break;
            }
            read += 1;
        }
        assert!(read * line.len() >= WAITING_MOST_BYTES - line.len(), "{read} lines waited");
    }

    #[test]
    fn a_text_that_is_longer_than_all_that_may_wait_is_written() {
        let mut waiting = Waiting::default();
        let long = "x\n".repeat(WAITING_MOST_BYTES);
        waiting.add(long.clone());
        waiting.add("y\nz\n".to_owned());
        assert_eq!((waiting.lost, waiting.next()), (2, Some(long)));
        assert_eq!(waiting.next(), Some(format!("{LOST}2\n")));
        assert!(waiting.next().is_none() && waiting.bytes == 0 && waiting.is_written());
    }

    /// Writes slowly, and keeps it.
    struct Slow(Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            thread::sleep(Duration::from_millis(50));
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_said_last_is_written_before_the_end() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer::start(Slow(Arc::clone(&written))).unwrap();
        writer.say("one\n".to_owned());
        writer.say("two\n".to_owned());
        writer.finish(Instant::now() + Duration::from_secs(10));
        assert_eq!(*written.lock().unwrap(), b"one\ntwo\n");
    }
}
