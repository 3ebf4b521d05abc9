// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that were begun from addresses and ports of the story's choosing, so that it knows
//! whose they are whatever became of them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Socket, Type};
use tidegate_lab::Namespace;

/// What became of a connect() so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It still waits.
    Silent,
    /// The connection stands.
    Connected,
    /// A RST came.
    Refused,
}

/// A connect() that was begun and not waited for.
pub struct Dialed {
    /// The client's address and port.
    pub from: SocketAddr,
    socket: Socket,
    fate: Fate,
}

fn refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

impl Dialed {
    fn begin(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
        let fate = match socket.connect(&to.into()) {
            Ok(()) => Fate::Connected,
            // Over a veth the answer may be here before connect() returns.
            Err(error) if refused(&error) => Fate::Refused,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Fate::Silent,
            Err(error) => return Err(error),
        };
        Ok(Dialed { from, socket, fate })
    }

    /// What became of it by now.
    pub fn fate(&mut self) -> Fate {
        let mut one = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        if self.fate == Fate::Silent
            && poll(&mut one, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        {
            // The error is told once.
            self.fate = match self.socket.take_error().expect("SO_ERROR") {
                None => Fate::Connected,
                Some(error) if refused(&error) => Fate::Refused,
                Some(error) => panic!("{} met an odd error: {error}", self.from),
            };
        }
        self.fate
    }
}

/// A connect() from each of these to `to`, one after the other without waiting.
pub fn dial(namespace: &Namespace, from: Vec<SocketAddr>, to: SocketAddr) -> Vec<Dialed> {
    namespace.run(move || {
        from.into_iter()
            .map(|from| Dialed::begin(from, to).unwrap_or_else(|e| panic!("{from} to {to}: {e}")))
            .collect()
    })
}
