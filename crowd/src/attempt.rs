// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One client's attempt to be served.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use tidegate_client::http::{Progress, Reply};
use tidegate_client::{Close, End, Requests};

/// What attempts of a kind are for.
#[derive(Debug)]
pub(crate) struct Errand {
    pub requests: Requests,
    pub close: Close,
    /// Where it is for pages: the place of the errand for their objects.
    pub objects: Option<usize>,
}

/// What a new attempt begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New {
    /// The errand's place.
    pub errand: usize,
    /// Which of its requests is the first.
    pub first: u32,
    /// How many requests it makes over its connection.
    pub count: u16,
    pub intended_ns: u64,
    /// Whether it started in the part of the run that counts.
    pub counts: bool,
    /// The place of the visit that it belongs to, or [`ALONE`](crate::visits::ALONE).
    pub visit: u32,
}

#[derive(Debug)]
enum State {
    Connecting,
    Sending { sent: usize },
    Receiving(Reply),
}

/// An attempt under way.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub socket: Socket,
    pub new: New,
    state: State,
    /// Whole replies so far.
    pub answered: u16,
}

impl Attempt {
    /// Starts to connect. An error is the attempt's end already.
    pub(crate) fn start(
        source: Option<IpAddr>,
        target: SocketAddr,
        close: Close,
        new: New,
    ) -> Result<Self, End> {
        let socket = connect(source, target, close).map_err(|error| end_of(&error))?;
        Ok(Self { socket, new, state: State::Connecting, answered: 0 })
    }

    /// Goes on as far as it can; `None` means that it waits again.
    pub(crate) fn proceed(
        &mut self,
        errand: &Errand,
        readable: bool,
        scratch: &mut [u8],
    ) -> Option<End> {
        match self.try_to_proceed(errand, readable, scratch) {
            Ok(end) => end,
            // connect() or TCP gave up before the person did.
            Err(error) if error.raw_os_error() == Some(Errno::ETIMEDOUT as i32) => {
                Some(self.given_up())
            }
            Err(error) => Some(end_of(&error)),
        }
    }

    fn try_to_proceed(
        &mut self,
        errand: &Errand,
        readable: bool,
        scratch: &mut [u8],
    ) -> io::Result<Option<End>> {
        loop {
            if !self.send(errand)? {
                return Ok(None);
            }
            // Just connected, there is seldom anything to read yet, and an edge comes when there
            // is.
            if !readable {
                return Ok(None);
            }
            let progress = match self.read_reply(scratch)? {
                Some(progress) => progress,
                None => return Ok(None),
            };
            let keeps_alive = match progress {
                Progress::Partial => return Ok(Some(End::ClosedEarly)),
                Progress::Nonsense => return Ok(Some(End::Nonsense)),
                Progress::Whole { status: 400.., .. } => return Ok(Some(End::HttpError)),
                Progress::Whole { keeps_alive, .. } => keeps_alive,
            };
            self.answered += 1;
            if self.answered == self.new.count {
                return Ok(Some(End::Replied));
            }
            if !keeps_alive {
                return Ok(Some(End::ClosedEarly));
            }
            self.state = State::Sending { sent: 0 };
        }
    }

    /// Whether the request is sent whole.
    fn send(&mut self, errand: &Errand) -> io::Result<bool> {
        let mut sent = match self.state {
            State::Connecting => 0,
            State::Sending { sent } => sent,
            State::Receiving(_) => return Ok(true),
        };
        let request = errand.requests.at(self.new.first.wrapping_add(u32::from(self.answered)));
        let is_last = self.answered + 1 == self.new.count;
        let asks_to_close = is_last && errand.close == Close::Server;
        let bytes = if asks_to_close { request.last_bytes() } else { request.bytes() };
        while sent < bytes.len() {
            match (&self.socket).write(&bytes[sent..]) {
                Ok(count) => {
                    sent += count;
                    // Bytes that are taken say that connect() succeeded. Where it failed, this very
                    // call reports why, so that SO_ERROR need not be asked.
                    self.state = State::Sending { sent };
                }
                // Not connected yet, or connected without room: the attempt is where it was.
                Err(error) if waits(&error) => return Ok(false),
                Err(error) => {
                    // A RST that answers the SYN is ECONNREFUSED: this one came after the SYN/ACK.
                    if end_of(&error) == End::Reset {
                        self.state = State::Sending { sent };
                    }
                    return Err(error);
                }
            }
        }
        if errand.close == Close::HalfClose && is_last {
            // An error means that a RST has come meanwhile, which reading will tell.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        self.state = State::Receiving(request.reply());
        Ok(true)
    }

    /// How the reply came out; `None` while there is more to come.
    fn read_reply(&mut self, scratch: &mut [u8]) -> io::Result<Option<Progress>> {
        let State::Receiving(reply) = &mut self.state else {
            return Ok(None);
        };
        loop {
            let progress = match (&self.socket).read(scratch) {
                Ok(0) => return Ok(Some(reply.end())),
                Ok(count) => reply.take(&scratch[..count]).0,
                Err(error) if waits(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            if progress != Progress::Partial {
                return Ok(Some(progress));
            }
        }
    }

    /// The place of what it is for.
    pub(crate) fn errand(&self) -> usize {
        self.new.errand
    }

    /// Whether it has got as far as asking.
    pub(crate) fn is_connected(&self) -> bool {
        !matches!(self.state, State::Connecting)
    }

    /// What it is called when the client gives up now.
    pub(crate) fn given_up(&self) -> End {
        if self.is_connected() { End::TimedOutWaiting } else { End::TimedOutConnecting }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visits::ALONE;
    use socket2::SockRef;
    use std::net::TcpListener;
    use std::thread::sleep;

    const STEP: Duration = Duration::from_millis(1);

    fn started(target: SocketAddr) -> Attempt {
        let new = New { errand: 0, first: 0, count: 1, intended_ns: 0, counts: true, visit: ALONE };
        Attempt::start(None, target, Close::Fin, new).unwrap()
    }

    /// Has an attempt go on until it ends.
    fn end(attempt: &mut Attempt) -> End {
        end_with(attempt, Close::Fin)
    }

    fn end_with(attempt: &mut Attempt, close: Close) -> End {
        let errand = Errand { requests: Requests::get("h", ["/"]), close, objects: None };
        for _ in 0..5000 {
            if let Some(end) = attempt.proceed(&errand, true, &mut [0; 1024]) {
                return end;
            }
            sleep(STEP);
        }
        panic!("it has no end: {attempt:?}");
    }

    #[test]
    fn whose_connect_failed_was_never_connected() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = free.local_addr().unwrap();
        drop(free);
        let mut attempt = started(target);
        assert_eq!(end(&mut attempt), End::Refused);
        assert!(!attempt.is_connected());
        // What it is called when the kernel gives up connecting, which takes minutes.
        assert_eq!(attempt.given_up(), End::TimedOutConnecting);
    }

    #[test]
    fn who_was_reset_had_been_connected() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut attempt = started(listener.local_addr().unwrap());
        assert!(!attempt.is_connected());
        let (stream, _) = listener.accept().unwrap();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
        assert_eq!(end(&mut attempt), End::Reset);
        assert!(attempt.is_connected());
        assert_eq!(attempt.given_up(), End::TimedOutWaiting);
    }

    /// The request is out, and nothing of the RST was heard yet when the client closes its side.
    #[test]
    fn who_is_reset_before_closing_half_is_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut attempt = started(listener.local_addr().unwrap());
        let (stream, _) = listener.accept().unwrap();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
        attempt.state = State::Sending { sent: usize::MAX };
        assert_eq!(end_with(&mut attempt, Close::HalfClose), End::Reset);
    }
}
