// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a daemon is told to do by signals: to end, or to read its configuration again. It is read by a thread of its
//! own, the first time too: a pipe that nobody writes to, or a file system that hangs, may never answer, and the
//! daemon goes on, and ends when it is told to.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Result};
use crate::pace::TICK;
use crate::signals;

/// What is to be done.
pub enum Order<T> {
    /// To end.
    End,
    /// To put this in force, or to tell why it could not be read.
    TakeUp(Result<T>),
}

/// The orders of a daemon whose configuration is a `T`.
pub struct Orders<T> {
    signals: Signals,
    read: Arc<dyn Fn() -> Result<T> + Send + Sync>,
    /// Where the answer comes from of what is being read. Whoever orders it once more waits for the new answer alone.
    reading: Option<Receiver<Result<T>>>,
}

/// Of a thread that ended without an answer, or never began.
fn unread() -> Failure {
    Failure::argument(
        "no thread could read the configuration",
        "have this process start more of them (TasksMax= in a unit), and try again",
    )
}

impl<T: Send + 'static> Orders<T> {
    /// Hears signals from here on, which are no longer what they are by default.
    pub fn hear(read: impl Fn() -> Result<T> + Send + Sync + 'static) -> Result<Self> {
        let signals = signals::hear(&[SIGHUP])?;
        Ok(Orders { signals, read: Arc::new(read), reading: None })
    }

    /// The configuration to begin with; `None` where the process is to end before there is one.
    pub fn first(&mut self) -> Result<Option<T>> {
        self.begin_to_read();
        match self.wait() {
            Order::TakeUp(read) => read.map(Some),
            Order::End => Ok(None),
        }
    }

    fn begin_to_read(&mut self) {
        let (answer, reading) = mpsc::channel();
        let read = Arc::clone(&self.read);
        // Nobody may wait for the answer any more. Where no thread begins, none comes.
        let _ = thread::Builder::new().spawn(move || {
            let _ = answer.send(read());
        });
        self.reading = Some(reading);
    }

    /// What is ordered within a tick, if anything is.
    pub fn within_a_tick(&mut self) -> Option<Order<T>> {
        if let Some(read) = self.read_within_a_tick() {
            return Some(Order::TakeUp(read));
        }
        let came = self.signals.pending();
        self.obey(came)
    }

    /// The next order. This process sleeps until it comes.
    pub fn wait(&mut self) -> Order<T> {
        loop {
            let order = if self.reading.is_some() {
                self.within_a_tick()
            } else {
                let came = self.signals.wait();
                self.obey(came)
            };
            if let Some(order) = order {
                return order;
            }
        }
    }

    fn read_within_a_tick(&mut self) -> Option<Result<T>> {
        let Some(reading) = &self.reading else {
            thread::sleep(TICK);
            return None;
        };
        let read = match reading.recv_timeout(TICK) {
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Err(unread()),
            Ok(read) => read,
        };
        self.reading = None;
        Some(read)
    }

    fn obey(&mut self, signals: impl Iterator<Item = i32>) -> Option<Order<T>> {
        for signal in signals {
            match signal {
                SIGHUP => self.begin_to_read(),
                _ => return Some(Order::End),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use signal_hook::consts::SIGUSR1;
    use signal_hook::low_level::raise;

    use super::*;

    /// SIGUSR1 ends it: whoever runs the tests may want to end them.
    fn orders(read: impl Fn(u32) -> Result<u32> + Send + Sync + 'static) -> Orders<u32> {
        let signals = Signals::new([SIGUSR1, SIGHUP]).unwrap();
        let times = AtomicU32::new(0);
        let read = move || read(times.fetch_add(1, Ordering::Relaxed));
        Orders { signals, read: Arc::new(read), reading: None }
    }

    #[test]
    fn a_configuration_that_never_answers_keeps_nobody_from_the_next_order() {
        let mut orders = orders(|time| match time {
            // A pipe that nobody writes to.
            1 | 3 => loop {
                thread::park();
            },
            time => Ok(time),
        });
        assert_eq!(orders.first().unwrap(), Some(0));
        raise(SIGHUP).unwrap();
        assert!(orders.within_a_tick().is_none(), "it is read");
        assert!(orders.within_a_tick().is_none(), "and does not answer");
        raise(SIGHUP).unwrap();
        assert!(matches!(orders.wait(), Order::TakeUp(Ok(2))), "another is there");
        raise(SIGHUP).unwrap();
        assert!(orders.within_a_tick().is_none());
        raise(SIGUSR1).unwrap();
        assert!(matches!(orders.wait(), Order::End));
        assert!(orders.reading.is_some(), "though nothing has answered");
    }
}
