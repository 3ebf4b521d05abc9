// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What our own servers count of themselves, read while they serve.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tidegate_lab::{Child, Namespace};
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
    let unheard = |reason: String| LiveError::Ended { program: "the server".to_owned(), reason };
    let before_ns = earlier.map_or(0, |earlier| earlier.elapsed_ns);
    let begun = Instant::now();
    let (mut asked, mut found) = (None::<Instant>, "wrote no statistics");
    loop {
        // Whoever was kept from looking until it was too late looks once more all the same.
        let is_last = begun.elapsed() >= PATIENCE;
        if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            server.signal(Signal::SIGUSR1).map_err(|error| unheard(error.to_string()))?;
            asked = Some(Instant::now());
        }
        // The file is not there before the first answer.
        if let Ok(text) = namespace.read_file(file) {
            let read: Statistics =
                serde_json::from_str(&text).map_err(|error| unheard(error.to_string()))?;
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
