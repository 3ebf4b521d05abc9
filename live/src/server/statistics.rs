// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What our own servers count of themselves, read while they serve.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tidegate_lab::{Child, Namespace, is_dead};
use tidegate_servers::Statistics;

use crate::error::LiveError;

/// A server's signal thread goes before those that serve, but not before packets: where these take all
/// of its processor, it has waited for 2 s and more. A crowd that ends leaves it time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that has not answered for so long is asked again: one in two was not heard of again where
/// packets took all of its processor, though its signal thread slept and waited for the next word.
const AGAIN: Duration = Duration::from_millis(500);

/// Asks a server for its statistics: it writes the file anew at every SIGUSR1.
pub(super) fn ask(
    namespace: &Namespace,
    server: &Child,
    file: &str,
    earlier: Option<&Statistics>,
) -> Result<Statistics, LiveError> {
    let signal = || {
        server.signal(Signal::SIGUSR1).map_err(|error| unheard(error.to_string()))?;
        // One that nobody has waited for yet takes signals, too.
        if is_dead(server.id()) { Err(unheard("it has ended".to_owned())) } else { Ok(()) }
    };
    // The file is not there before the first answer.
    let read = || namespace.read_file(file).ok().map(|text| parsed(&text)).transpose();
    heard(signal, read, earlier)
}

fn parsed(text: &str) -> Result<Statistics, LiveError> {
    serde_json::from_str(text).map_err(|error| unheard(error.to_string()))
}

fn unheard(reason: String) -> LiveError {
    LiveError::Ended { program: "the server".to_owned(), reason }
}

/// What is read behind a signal, and was not there before it: who had to be asked twice answers twice, and the
/// second answer is still there when it is asked the next time.
fn heard(
    signal: impl Fn() -> Result<(), LiveError>,
    read: impl Fn() -> Result<Option<Statistics>, LiveError>,
    earlier: Option<&Statistics>,
) -> Result<Statistics, LiveError> {
    let there = read()?;
    let before = there.iter().chain(earlier).map(|counted| counted.elapsed_ns);
    let before_ns = before.max().unwrap_or(0);
    let begun = Instant::now();
    let (mut asked, mut found) = (None::<Instant>, "wrote no statistics");
    loop {
        // Whoever was kept from looking until it was too late looks once more all the same.
        let is_last = begun.elapsed() >= PATIENCE;
        if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            signal()?;
            asked = Some(Instant::now());
        }
        if let Some(read) = read()? {
            if read.elapsed_ns > before_ns {
                return Ok(read);
            }
            found = "wrote no statistics anew";
        }
        if is_last {
            return Err(unheard(format!("it {found} within {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn after(elapsed_ns: u64) -> Statistics {
        Statistics { elapsed_ns, ..Statistics::default() }
    }

    /// What was counted until shortly after the beginning once stood for all of a point.
    #[test]
    fn an_answer_that_nobody_waited_for_is_not_the_next_ones() {
        // Asked twice when the counted time began, it answered after 600 and, unread, after 700 ns.
        let file = Cell::new(Some(after(700)));
        let signal = || {
            file.set(Some(after(5000)));
            Ok(())
        };
        let told = heard(signal, || Ok(file.get()), Some(&after(600))).unwrap();
        assert_eq!(told.elapsed_ns, 5000);
    }

    #[test]
    fn the_first_answer_is_one_where_there_was_no_file() {
        let file = Cell::new(None);
        let signal = || {
            file.set(Some(after(600)));
            Ok(())
        };
        assert_eq!(heard(signal, || Ok(file.get()), None).unwrap().elapsed_ns, 600);
    }

    /// It may have been heard, and be about to answer.
    #[test]
    fn who_does_not_answer_is_asked_again() {
        let (file, asked) = (Cell::new(None), Cell::new(0));
        let signal = || {
            asked.set(asked.get() + 1);
            if asked.get() == 2 {
                file.set(Some(after(600)));
            }
            Ok(())
        };
        assert_eq!(heard(signal, || Ok(file.get()), None).unwrap().elapsed_ns, 600);
        assert_eq!(asked.get(), 2);
    }
}
