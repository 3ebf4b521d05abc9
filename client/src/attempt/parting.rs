// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a client ends its side, and what is left to do when its last reply is whole.
//!
//! "Faber" is Faber, Touch and Yue, "The TIME-WAIT state in TCP and Its Effect on Busy Servers"
//! (INFOCOM 1999).

use serde::{Deserialize, Serialize};

use super::Attempt;
use crate::attempt::Person;
use crate::connection::Wait;
use crate::segment::Out;

/// How a client ends its side of a connection, after a reply as well as when giving up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// Politely, with a FIN; what the server sends later is answered with a RST.
    #[default]
    Fin,
    /// With a RST (`SO_LINGER` of zero; Shukla, section 4.2.2).
    Reset,
    /// With a FIN right after the last request, while it still reads the reply (shutdown()).
    HalfClose,
    /// It leaves the closing to the server, which its last request asks for, and so TIME-WAIT too:
    /// HTTP as it was (Faber, section 4.2). A server that does not close is waited for as long as
    /// patience lasts.
    Server,
    /// It says that it closes, by a request that wants no reply, and closes (Faber, section 4.2).
    /// What a server says all the same is read and forgotten until it closes: data after a close()
    /// would be answered with a RST (RFC 1122, section 4.2.2.13), and nobody would hold TIME-WAIT.
    ClientClose,
}

impl Close {
    /// Every way.
    pub const ALL: [Self; 5] =
        [Self::Fin, Self::Reset, Self::HalfClose, Self::Server, Self::ClientClose];
}

/// What is left to be done on a connection whose last reply is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    /// Nothing that TCP does not do by itself.
    None,
    /// To say that the client closes, once the server has acknowledged the last request.
    ToSay,
    /// That was said, and the server's FIN has to come.
    Said,
    /// The server is to close first.
    Waits,
}

impl Parting {
    /// What such a client has left to do.
    pub(super) fn by(close: Close) -> Self {
        match close {
            Close::Server => Self::Waits,
            Close::ClientClose => Self::ToSay,
            Close::Fin | Close::Reset | Close::HalfClose => Self::None,
        }
    }
}

impl Attempt {
    /// What the client's host holds of the connection now that it is over. In its own TIME-WAIT the
    /// driver should not use the same addresses and ports again soon.
    #[inline]
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.connection.wait()
    }

    /// The request of this number as it is sent.
    pub(super) fn bytes<'a>(&self, person: &'a Person, number: u16) -> &'a [u8] {
        let request = person.requests.at(self.place(number));
        let is_last = number + 1 == self.count;
        if is_last && person.close == Close::Server {
            request.last_bytes()
        } else {
            request.bytes()
        }
    }

    /// Does what is left to be done after the last reply.
    pub(super) fn part(&mut self, now_ns: u64, person: &Person, out: &mut impl Out) {
        if self.parting == Parting::None || self.connection.ended().is_some() {
            return;
        }
        if self.connection.has_server_closed() || now_ns >= self.deadline_ns {
            let data = self.data(person);
            self.connection.close(now_ns, false, data, out);
            self.deadline_ns = u64::MAX;
            // What was not said by now is not said behind the FIN.
            if self.parting != Parting::Said {
                self.parting = Parting::None;
            }
        } else if self.parting == Parting::ToSay && self.connection.is_drained() {
            self.parting = Parting::Said;
            self.connection.send_last(now_ns, person.requests.client_close(), out);
        }
    }
}
