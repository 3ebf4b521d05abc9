// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::ServerError;

/// Listens on every address.
pub(crate) fn listen(
    addresses: &[SocketAddr],
    backlog: u32,
    reuse_port: bool,
) -> Result<Vec<TcpListener>, ServerError> {
    if addresses.is_empty() {
        return Err(ServerError::NoAddress);
    }
    addresses
        .iter()
        .map(|&address| {
            let v6_only = shares_port_with_v4(address, addresses);
            listen_on(address, backlog, reuse_port, v6_only)
                .map_err(|source| ServerError::Listen { address, source })
        })
        .collect()
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
