// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what a server counted of itself can be so, and is what its kernel counted.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_lab::{Counters, Namespace};
use tidegate_servers::Statistics;

use crate::error::LiveError;
use crate::server::Running;

/// So long a server may accept nobody while some still wait, when the crowd has gone; with a long listen
/// queue it accepts on, for so long at most.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_MOST: Duration = Duration::from_secs(30);

/// What one of our servers and its kernel counted since both began, after the crowd had gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accounts {
    server: Statistics,
    /// Connections that the kernel put into a listen queue.
    opened: u64,
}

impl Accounts {
    /// Reads them when nobody waits in the listen queue any more; others' servers have none.
    pub(crate) fn settle(
        namespace: &Namespace,
        server: &mut Running,
    ) -> Result<Option<Self>, LiveError> {
        let begun = Instant::now();
        let mut last_accepted = begun;
        let mut earlier: Option<Statistics> = None;
        loop {
            let Some(counted) = server.statistics(earlier.as_ref())? else { return Ok(None) };
            if earlier.is_some_and(|earlier| counted.accepted > earlier.accepted) {
                last_accepted = Instant::now();
            }
            let opened = Counters::of(namespace)?.get("TcpPassiveOpens")?.cast_unsigned();
            let accounts = Self { server: counted, opened };
            let is_over = last_accepted.elapsed() >= PATIENCE || begun.elapsed() >= PATIENCE_MOST;
            if counted.accepted == opened || is_over {
                return Ok(Some(accounts));
            }
            earlier = Some(counted);
            sleep(Duration::from_millis(50));
        }
    }

    /// What a reader must know of the point: what the server lacked, and what cannot be.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.shortage().into_iter().chain(self.contradiction()).collect()
    }

    /// How often it could not take a client that came: that limits it, and not how it accepts.
    fn shortage(&self) -> Option<String> {
        let failed = self.server.accept_failures;
        (failed > 0).then(|| {
            format!(
                "the server lacked descriptors, memory or threads to accept with {failed} times"
            )
        })
    }

    /// What cannot be: of the server's own figures, or of what it accepted and its kernel let in.
    fn contradiction(&self) -> Option<String> {
        let Self { server, opened } = self;
        if server.accepted != *opened {
            return Some(format!(
                "the server accepted {} connections, and its kernel let {opened} in",
                server.accepted
            ));
        }
        server.contradiction()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_figures_must_be_possible_and_the_kernels_count_the_same() {
        let server = Statistics { accepted: 7, accept_phases: 3, ..Statistics::default() };
        let server = Statistics { elapsed_ns: 1_700_000_000, ..server };
        assert_eq!(Accounts { server, opened: 7 }.warnings(), [""; 0]);
        let one_lost = Accounts { server, opened: 8 };
        assert!(one_lost.contradiction().expect("a loss").contains("let 8 in"));
        let no_phase = Accounts { server: Statistics { accept_phases: 0, ..server }, opened: 7 };
        assert!(no_phase.contradiction().expect("no phase").contains("accept phases"));
    }

    /// Beside what else is to be said: it may be why.
    #[test]
    fn a_server_that_could_not_accept_for_want_of_descriptors_says_so() {
        let server = Statistics { accept_failures: 3, ..Statistics::default() };
        let told = Accounts { server, opened: 5 }.warnings();
        let lacked = "the server lacked descriptors, memory or threads to accept with 3 times";
        assert_eq!(told[0], lacked);
        assert!(told[1].contains("let 5 in") && told.len() == 2, "{told:?}");
    }
}
