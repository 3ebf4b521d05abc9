// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What our own servers count of themselves, read while they serve.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tidegate_lab::{Child, Namespace};
use tidegate_servers::Statistics;

use crate::error::LiveError;

/// A server's signal thread waits its turn, and where packets take all of its processor there is none:
/// tux at 2.5 times its capacity has not answered for 2 s. A crowd that ends leaves it time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks a server for its statistics: it writes the file anew at every SIGUSR1.
pub(super) fn ask(
    namespace: &Namespace,
    server: &Child,
    file: &str,
    earlier: Option<&Statistics>,
) -> Result<Statistics, LiveError> {
    let unheard = |reason: String| LiveError::Ended { program: "the server".to_owned(), reason };
    let before_ns = earlier.map_or(0, |earlier| earlier.elapsed_ns);
    server.signal(Signal::SIGUSR1).map_err(|error| unheard(error.to_string()))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The file is not there before the first answer.
        if let Ok(text) = namespace.read_file(file) {
            let read: Statistics =
                serde_json::from_str(&text).map_err(|error| unheard(error.to_string()))?;
            if read.elapsed_ns > before_ns {
                return Ok(read);
            }
        }
        if Instant::now() >= deadline {
            return Err(unheard(format!("it wrote no statistics within {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
