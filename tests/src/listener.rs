// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A listening socket that accepts when the story says so, and the queues behind any.

use std::fs;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::libc;
use socket2::{Domain, SockRef, Socket, Type};
use tidegate_lab::Namespace;

use crate::option::set_option;

/// A server that takes no connection until it is told to.
pub struct Stalled {
    socket: TcpListener,
}

impl Stalled {
    /// Listens on `address` in `namespace`, as most servers do.
    pub fn new(namespace: &Namespace, address: SocketAddr, backlog: i32) -> Self {
        Self::with(namespace, address, backlog, |_| ())
    }

    /// The same, with socket options set before it is bound.
    pub fn with(
        namespace: &Namespace,
        address: SocketAddr,
        backlog: i32,
        options: impl FnOnce(&Socket) + Send + 'static,
    ) -> Self {
        let socket = namespace.run(move || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)
                .expect("a TCP socket");
            socket.set_reuse_address(true).expect("SO_REUSEADDR");
            options(&socket);
            socket.bind(&address.into()).expect("a free port");
            socket.listen(backlog).expect("a listening socket");
            socket
        });
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        Stalled { socket: socket.into() }
    }

    /// Changes the length of its listen queue while it listens.
    pub fn set_backlog(&self, backlog: i32) {
        // SAFETY: an open listening socket.
        let done = unsafe { libc::listen(self.socket.as_raw_fd(), backlog) };
        assert_eq!(done, 0, "listen() again");
    }

    /// Takes one connection, if any waits, and closes it.
    pub fn accept_one(&self) {
        drop(self.socket.accept());
    }

    /// Takes every connection that waits, with the client's address.
    pub fn accept_all(&self) -> Vec<(TcpStream, SocketAddr)> {
        std::iter::from_fn(|| self.socket.accept().ok()).collect()
    }
}

/// Nobody listens from here on. A close() would not do: another story may just be starting a program,
/// which has all of our sockets open until its exec().
impl Drop for Stalled {
    fn drop(&mut self) {
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
    }
}

/// Sets TCP_DEFER_ACCEPT: a handshake is complete when its first data arrives.
pub fn defer_accept(socket: &Socket, seconds: i32) {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
        .expect("TCP_DEFER_ACCEPT");
}

/// The states of /proc/net/tcp, include/net/tcp_states.h.
const SYN_RECV: &str = "03";
const CLOSE_WAIT: &str = "08";
const LAST_ACK: &str = "09";
const LISTEN: &str = "0A";

/// Local port, state and receive queue of every TCP socket in a namespace, by one of the two files.
fn sockets(namespace: &Namespace, file: &'static str) -> Vec<(u16, String, u32)> {
    let text = namespace.run(move || fs::read_to_string(file)).expect("a readable /proc/net/tcp");
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let port = u16::from_str_radix(words[1].rsplit_once(':')?.1, 16).ok()?;
        let queue = u32::from_str_radix(words[4].rsplit_once(':')?.1, 16).ok()?;
        Some((port, words[3].to_owned(), queue))
    };
    text.lines().skip(1).filter_map(row).collect()
}

fn file(ipv6: bool) -> &'static str {
    if ipv6 { "/proc/thread-self/net/tcp6" } else { "/proc/thread-self/net/tcp" }
}

/// Connections that wait for accept() on the sockets of `at`'s port and family.
pub fn listen_queue(namespace: &Namespace, at: SocketAddr) -> u32 {
    sockets(namespace, file(at.is_ipv6()))
        .iter()
        .filter(|(port, state, _)| *port == at.port() && state == LISTEN)
        .map(|(.., queue)| queue)
        .sum()
}

/// Half-open connections to `port`, of both families.
pub fn half_open(namespace: &Namespace, port: u16) -> usize {
    [false, true]
        .into_iter()
        .flat_map(|ipv6| sockets(namespace, file(ipv6)))
        .filter(|(at, state, _)| *at == port && state == SYN_RECV)
        .count()
}

/// Connections to `port`, of both families, whose client has closed and whose server has not, or
/// waits for its last acknowledgement.
pub fn closing(namespace: &Namespace, port: u16) -> usize {
    [false, true]
        .into_iter()
        .flat_map(|ipv6| sockets(namespace, file(ipv6)))
        .filter(|(at, state, _)| *at == port && [CLOSE_WAIT, LAST_ACK].contains(&state.as_str()))
        .count()
}

/// TCP sockets of a namespace that do not listen, in whatever state.
pub fn connections(namespace: &Namespace) -> usize {
    [false, true]
        .into_iter()
        .flat_map(|ipv6| sockets(namespace, file(ipv6)))
        .filter(|(_, state, _)| state != LISTEN)
        .count()
}

/// Waits until something holds, and fails by its name when it does not within five seconds.
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    within(Duration::from_secs(5), what, holds);
}

/// The same for what takes a segment that TCP sends again, and sent first at `sent`. Each pause is as
/// long as all before it together at most (RFC 6298, 5.5; Linux's SYNs go 1, 2, 3, 4, 5, 7, 11, 19 s
/// after the first), so however long a story took, the next comes before its age has doubled.
#[track_caller]
pub fn until_sent_again(sent: Instant, what: &str, holds: impl FnMut() -> bool) {
    within(sent.elapsed() + Duration::from_secs(5), what, holds);
}

#[track_caller]
fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
