// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client's attempt to be served.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::plan::Close;
use crate::response::{Progress, Response};

/// How an attempt ended: exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A whole reply with a status below 400.
    Replied,
    /// A whole reply with another status.
    HttpError,
    /// ECONNREFUSED: a RST answered the SYN.
    Refused,
    /// ECONNRESET or EPIPE: a RST came after the SYN/ACK.
    Reset,
    /// The client gave up before it was connected.
    TimedOutConnecting,
    /// The client gave up connected, without a whole reply.
    TimedOutWaiting,
    /// The server closed before the reply was whole.
    ClosedEarly,
    /// What came was not HTTP.
    Nonsense,
    /// Anything else, by errno; the generator's own troubles (EMFILE, EADDRNOTAVAIL) among them.
    Other(i32),
}

#[derive(Debug)]
enum State {
    Connecting,
    Sending { sent: usize },
    Receiving(Response),
}

/// An attempt under way.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub socket: Socket,
    pub intended_ns: u64,
    pub deadline_ns: u64,
    /// Whether it started in the part of the run that counts.
    pub counts: bool,
    state: State,
}

impl Attempt {
    /// Starts to connect. An error is the attempt's end already.
    pub(crate) fn start(
        source: Option<IpAddr>,
        target: SocketAddr,
        close: Close,
        intended_ns: u64,
        deadline_ns: u64,
        counts: bool,
    ) -> Result<Self, End> {
        let socket = connect(source, target, close).map_err(|error| end_of(&error))?;
        Ok(Self { socket, intended_ns, deadline_ns, counts, state: State::Connecting })
    }

    /// Goes on as far as it can; `None` means that it waits again.
    pub(crate) fn proceed(
        &mut self,
        request: &[u8],
        readable: bool,
        scratch: &mut [u8],
    ) -> Option<End> {
        match self.try_to_proceed(request, readable, scratch) {
            Ok(end) => end,
            Err(error) => Some(end_of(&error)),
        }
    }

    fn try_to_proceed(
        &mut self,
        request: &[u8],
        readable: bool,
        scratch: &mut [u8],
    ) -> io::Result<Option<End>> {
        if let State::Connecting = self.state {
            // A send on a socket that failed to connect reports why, so SO_ERROR need not be asked.
            self.state = State::Sending { sent: 0 };
        }
        if let State::Sending { sent } = &mut self.state {
            while *sent < request.len() {
                match (&self.socket).write(&request[*sent..]) {
                    Ok(count) => *sent += count,
                    Err(error) if waits(&error) => {
                        if *sent == 0 && error.raw_os_error() == Some(Errno::EAGAIN as i32) {
                            // Not connected yet, or connected without room: either way, nothing
                            // has been asked, so the attempt is where it was.
                            self.state = State::Connecting;
                        }
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
            self.state = State::Receiving(Response::default());
        }
        // Just connected, there is seldom anything to read yet, and an edge comes when there is.
        if !readable {
            return Ok(None);
        }
        let State::Receiving(response) = &mut self.state else {
            return Ok(None);
        };
        loop {
            let progress = match (&self.socket).read(scratch) {
                Ok(0) => match response.end() {
                    Progress::Partial => return Ok(Some(End::ClosedEarly)),
                    ended => ended,
                },
                Ok(count) => response.take(&scratch[..count]),
                Err(error) if waits(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            match progress {
                Progress::Partial => {}
                Progress::Whole(200..=399) => return Ok(Some(End::Replied)),
                Progress::Whole(_) => return Ok(Some(End::HttpError)),
                Progress::Nonsense => return Ok(Some(End::Nonsense)),
            }
        }
    }

    /// What it is called when the client gives up now.
    pub(crate) fn given_up(&self) -> End {
        match self.state {
            State::Connecting => End::TimedOutConnecting,
            _ => End::TimedOutWaiting,
        }
    }
}

fn connect(source: Option<IpAddr>, target: SocketAddr, close: Close) -> io::Result<Socket> {
    let socket = Socket::new_raw(
        Domain::for_address(target),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    if close == Close::Reset {
        socket.set_linger(Some(Duration::ZERO))?;
    }
    if let Some(source) = source {
        // The port is chosen at connect, when the target is known: 64 k ports for each target
        // instead of for all together.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    match socket.connect(&target.into()) {
        Ok(()) => Ok(socket),
        Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn end_of(error: &io::Error) -> End {
    let number = error.raw_os_error().unwrap_or(0);
    match Errno::from_raw(number) {
        Errno::ECONNREFUSED => End::Refused,
        Errno::ECONNRESET | Errno::EPIPE => End::Reset,
        _ => End::Other(number),
    }
}
