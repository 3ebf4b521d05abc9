// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets whose last reply is whole, and on which the server is still to close.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::Shutdown;

use libc::{MSG_MORE, MSG_NOSIGNAL};
use socket2::Socket;
use tidegate_client::Close;

use crate::attempt::Errand;

const FORGOTTEN_BYTES: usize = 4096;

/// Sockets by the token that their attempts had. As many at most as attempts begin within their
/// patience.
#[derive(Default)]
pub(super) struct Leaving(HashMap<u64, Socket>);

impl Leaving {
    /// Closes a socket as its errand has it: at once, or when the server has closed its side.
    pub(super) fn leave(&mut self, token: u64, socket: Socket, errand: &Errand) {
        match errand.close {
            Close::Fin | Close::Reset | Close::HalfClose => return,
            Close::Server => {}
            Close::ClientClose => {
                // The FIN goes in the same segment. Errors mean that the server has left, which
                // reading will tell.
                let flags = MSG_MORE | MSG_NOSIGNAL;
                let _ = socket.send_with_flags(errand.requests.client_close(), flags);
                let _ = socket.shutdown(Shutdown::Write);
            }
        }
        // By edges, nobody would tell again of what has come already.
        if !has_ended(&socket) {
            self.0.insert(token, socket);
        }
    }

    /// Something has come for a token, if it is one of these.
    pub(super) fn heard(&mut self, token: u64) {
        if self.0.get(&token).is_some_and(has_ended) {
            self.forget(token);
        }
    }

    /// Closes now, if it is one of these.
    pub(super) fn forget(&mut self, token: u64) {
        self.0.remove(&token);
    }
}

/// Whether the server has closed its side, or is gone. What it says until then is forgotten.
fn has_ended(socket: &Socket) -> bool {
    let mut forgotten = [0; FORGOTTEN_BYTES];
    loop {
        match (&*socket).read(&mut forgotten) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
