// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Listening sockets, and what waits at them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{SockFlag, accept4};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ServerError;

/// A server's listening sockets, taken in turn.
#[derive(Debug)]
pub(crate) struct Listeners {
    sockets: Vec<TcpListener>,
    /// The one to accept from next: a low limit must not leave the others out.
    turn: usize,
}

/// What came of accepting.
pub(crate) enum Accepted {
    /// A connection.
    Connection(TcpStream),
    /// A connection that its client took back while it was queued.
    Dead,
    /// Nobody waits.
    Nobody,
    /// There is no descriptor or no memory for it.
    NoRoom,
}

impl Listeners {
    /// Listens on every address.
    pub(crate) fn on(
        addresses: &[SocketAddr],
        backlog: u32,
        reuse_port: bool,
    ) -> Result<Self, ServerError> {
        if addresses.is_empty() {
            return Err(ServerError::NoAddress);
        }
        let sockets: Result<_, _> = addresses
            .iter()
            .map(|&address| {
                let v6_only = shares_port_with_v4(address, addresses);
                listen_on(address, backlog, reuse_port, v6_only)
                    .map_err(|source| ServerError::Listen { address, source })
            })
            .collect();
        Ok(Self { sockets: sockets?, turn: 0 })
    }

    /// The addresses listened on, ports filled in.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// The sockets, in the order of the addresses.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Takes a connection from one of the listen queues.
    pub(crate) fn accept(&mut self) -> Accepted {
        let mut empty = 0;
        while empty < self.sockets.len() {
            let socket = &self.sockets[self.turn];
            self.turn = (self.turn + 1) % self.sockets.len();
            match accept(socket) {
                Ok(stream) => return Accepted::Connection(stream),
                Err(Errno::EAGAIN) => empty += 1,
                Err(Errno::EINTR) => {}
                // What the network did to a connection that was queued (accept(2), on Linux).
                Err(
                    Errno::ECONNABORTED
                    | Errno::EPROTO
                    | Errno::ENETDOWN
                    | Errno::ENOPROTOOPT
                    | Errno::EHOSTDOWN
                    | Errno::ENONET
                    | Errno::EHOSTUNREACH
                    | Errno::EOPNOTSUPP
                    | Errno::ENETUNREACH,
                ) => return Accepted::Dead,
                Err(_) => return Accepted::NoRoom,
            }
        }
        Accepted::Nobody
    }

    /// How many connections wait in the listen queues, if the kernel says so.
    pub(crate) fn waiting(&self) -> Option<u32> {
        self.sockets.iter().map(waiting).sum()
    }
}

fn accept(socket: &TcpListener) -> Result<TcpStream, Errno> {
    let fd = accept4(socket.as_raw_fd(), SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    Ok(TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Of a listening socket, `tcp_info` tells the length of its listen queue where other sockets have
/// unacknowledged segments (`tcp_get_info()` in the kernel).
fn waiting(socket: &TcpListener) -> Option<u32> {
    // SAFETY: the structure is made of integers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has as many.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (failed == 0).then_some(info.tcpi_unacked)
}

fn listen_on(
    address: SocketAddr,
    backlog: u32,
    reuse_port: bool,
    v6_only: bool,
) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    if v6_only {
        socket.set_only_v6(true)?;
    }
    // Inherited by what is accepted: a reply is written at once, so there is nothing to coalesce.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// `[::]:80` takes `0.0.0.0:80` as well, unless that is asked for beside it.
fn shares_port_with_v4(address: SocketAddr, addresses: &[SocketAddr]) -> bool {
    address.is_ipv6()
        && addresses.iter().any(|other| other.is_ipv4() && other.port() == address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_counted_and_the_sockets_take_turns() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listeners = Listeners::on(&[any, any], 16, false).unwrap();
        assert_eq!(listeners.waiting(), Some(0));
        let addresses = listeners.addresses();
        let connect = |count: usize, address| -> Vec<TcpStream> {
            (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
        };
        let _first = connect(3, addresses[0]);
        let _second = connect(2, addresses[1]);
        assert_eq!(listeners.waiting(), Some(5));
        let mut from = Vec::new();
        while let Accepted::Connection(stream) = listeners.accept() {
            from.push(addresses.iter().position(|&a| a == stream.local_addr().unwrap()).unwrap());
        }
        assert_eq!(from, [0, 1, 0, 1, 0]);
        assert_eq!(listeners.waiting(), Some(0));
    }
}
