// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what a server counted of itself adds up, and with what its kernel counted.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_lab::{Counters, Namespace};
use tidegate_servers::Statistics;

use crate::error::LiveError;
use crate::server::Running;

/// So long a server may take to accept those who still waited when the crowd had gone.
const PATIENCE: Duration = Duration::from_secs(2);

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
        server: &Running,
    ) -> Result<Option<Self>, LiveError> {
        let deadline = Instant::now() + PATIENCE;
        let mut earlier = None;
        loop {
            let Some(counted) = server.statistics(earlier.as_ref())? else { return Ok(None) };
            let opened = Counters::of(namespace)?.get("TcpPassiveOpens")?.cast_unsigned();
            let accounts = Self { server: counted, opened };
            if counted.accepted == opened || Instant::now() >= deadline {
                return Ok(Some(accounts));
            }
            earlier = Some(counted);
            sleep(Duration::from_millis(50));
        }
    }

    /// What does not add up: `N_phases` × `C_avg` is what was accepted (Pariag, Equation 4.1), the
    /// select-rate times the descriptors per call is the fd-rate (Table 4.1), and what the server
    /// accepted is what its kernel let in.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let Self { server, opened } = self;
        if server.accepted != *opened {
            return Some(format!(
                "the server accepted {} connections, and its kernel let {opened} in",
                server.accepted
            ));
        }
        let by_phases = server.accept_phases as f64 * server.accepted_per_phase();
        if by_phases.round() as u64 != server.accepted {
            return Some(format!(
                "by its accept phases the server accepted {by_phases:.0} connections of {}",
                server.accepted
            ));
        }
        let (by_calls, fds_per_s) =
            (server.event_calls_per_s() * server.fds_per_call(), server.fds_per_s());
        // The one is a product of rounded numbers.
        if (by_calls - fds_per_s).abs() > fds_per_s * 1e-9 {
            return Some(format!(
                "by its calls the server was told of {by_calls:.1} descriptors a second of \
                 {fds_per_s:.1}"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        let server = Statistics {
            accepted: 7,
            accept_phases: 3,
            event_calls: 9,
            fds_told: 31,
            elapsed_ns: 1_700_000_000,
            ..Statistics::default()
        };
        Accounts { server, opened: 7 }
    }

    #[test]
    fn what_adds_up_is_left_alone() {
        assert_eq!(accounts().contradiction(), None);
        let idle = Accounts { server: Statistics::default(), opened: 0 };
        assert_eq!(idle.contradiction(), None);
    }

    #[test]
    fn whatever_does_not_is_told() {
        let mut one_lost = accounts();
        one_lost.opened += 1;
        assert!(one_lost.contradiction().expect("a loss").contains("let 8 in"));
        let mut no_phases = accounts();
        no_phases.server.accept_phases = 0;
        assert!(no_phases.contradiction().expect("no phase").contains("accept phases"));
        let mut no_calls = accounts();
        no_calls.server.event_calls = 0;
        assert!(no_calls.contradiction().expect("no call").contains("descriptors"));
    }
}
