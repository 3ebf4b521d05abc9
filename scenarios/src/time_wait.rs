// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT on a curve (Faber, Touch and Yue, sections 3 and 4.1).

use serde::{Deserialize, Serialize};
use tidegate_policy::raw::tg_tw_rules;
use tidegate_policy::time_wait::{End, negotiate};

use crate::clients::{Clients, Driver};
use crate::curve::Treatment;
use crate::fin::Fin;

/// Whom the ends of connections have hold TIME-WAIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeWait {
    /// Who closed first, as TCP has it.
    #[default]
    Today,
    /// The client: both ends name it in the handshake.
    NegotiateClient,
    /// The server: both ends name it in the handshake.
    NegotiateServer,
    /// The client, which resets the server's where that closed first.
    CloseSwap,
}

impl TimeWait {
    /// What the clients want.
    #[must_use]
    pub fn at_clients(self) -> tg_tw_rules {
        tg_tw_rules { close_swap: u32::from(self == Self::CloseSwap), ..self.at_server() }
    }

    /// What the server's listener wants.
    #[must_use]
    pub fn at_server(self) -> tg_tw_rules {
        negotiate(self.negotiated())
    }

    /// Whom both ends name, if they negotiate.
    #[must_use]
    pub fn negotiated(self) -> Option<End> {
        match self {
            Self::NegotiateClient => Some(End::Client),
            Self::NegotiateServer => Some(End::Server),
            Self::Today | Self::CloseSwap => None,
        }
    }

    /// As scenarios spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::NegotiateClient => "negotiate-client",
            Self::NegotiateServer => "negotiate-server",
            Self::CloseSwap => "close-swap",
        }
    }

    pub(crate) fn check(
        self,
        treatment: &Treatment,
        fin: Fin,
        clients: &Clients,
    ) -> Result<(), String> {
        let name = self.name();
        if self.negotiated().is_some() && !matches!(treatment, Treatment::Mechanism(_)) {
            return Err(format!(
                "time_wait = \"{name}\" is Tidegate's at the server too: give a mechanism, as in \
                 \"default\""
            ));
        }
        // As `tidegate` refuses it.
        if self == Self::NegotiateServer && fin != Fin::HalfClose {
            let fin = fin.name();
            return Err(format!(
                "fin = \"{fin}\" leaves no TIME-WAIT for the server to hold: give time_wait = \
                 \"negotiate-client\", or take fin out"
            ));
        }
        if self != Self::Today && clients.driver == Driver::Sockets {
            return Err(format!(
                "time_wait = \"{name}\" is not for clients over kernel sockets, which hold it as \
                 TCP has it: give driver = \"raw\""
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [TimeWait; 4] = [
        TimeWait::Today,
        TimeWait::NegotiateClient,
        TimeWait::NegotiateServer,
        TimeWait::CloseSwap,
    ];

    #[test]
    fn it_is_read_as_it_is_named() {
        #[derive(Deserialize)]
        struct Line {
            time_wait: TimeWait,
        }
        for time_wait in ALL {
            let text = format!("time_wait = \"{}\"", time_wait.name());
            assert_eq!(toml::from_str::<Line>(&text).unwrap().time_wait, time_wait);
        }
    }

    #[test]
    fn what_negotiates_needs_tidegate_and_what_moves_needs_raw_clients() {
        let (kernel, default) = (
            Treatment::Peer(crate::curve::Peer::Kernel),
            Treatment::Mechanism("default".to_owned()),
        );
        let raw = Clients::default();
        let sockets = Clients { driver: Driver::Sockets, ..Clients::default() };
        for time_wait in ALL {
            let fin = Fin::HalfClose;
            assert_eq!(time_wait.check(&default, fin, &raw), Ok(()));
            let negotiates = time_wait.negotiated().is_some();
            assert_eq!(time_wait.check(&kernel, fin, &raw).is_err(), negotiates);
            let moves = time_wait != TimeWait::Today;
            assert_eq!(time_wait.check(&default, fin, &sockets).is_err(), moves);
        }
    }

    /// As `tidegate` refuses it: a connection that a FIN ends has no TIME-WAIT at either end.
    #[test]
    fn the_server_holds_nothing_of_what_a_fin_ends() {
        let (default, raw) = (Treatment::Mechanism("default".to_owned()), Clients::default());
        for fin in [Fin::Ends, Fin::EndsStrictly] {
            for time_wait in ALL {
                let is_refused = time_wait.check(&default, fin, &raw).is_err();
                assert_eq!(is_refused, time_wait == TimeWait::NegotiateServer);
            }
        }
    }
}
