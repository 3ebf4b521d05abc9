// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An established connection of this host to itself, and where its sequence numbers stand.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use nix::sys::socket::{setsockopt, sockopt};

use super::scene::connect;
use super::segment::{ACK, FIN, HERE, RST, Segment};

/// linux/tcp.h: the queues whose numbers a socket under repair tells.
const RECEIVE_QUEUE: i32 = 1;
const SEND_QUEUE: i32 = 2;
/// Ends a repair without a probe of the window.
const REPAIR_OFF: i32 = -1;

/// Both ends, and the server's sequence numbers when it was made.
pub struct Pair {
    pub client: TcpStream,
    pub server: TcpStream,
    /// What the server expects next.
    pub expected: u32,
    /// What it sends next.
    pub next: u32,
}

fn set(socket: &TcpStream, option: i32, value: i32) {
    // SAFETY: an open socket, and an integer of the length that is told.
    let done = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, value, 4)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn queue_ends_at(socket: &TcpStream, queue: i32) -> u32 {
    set(socket, libc::TCP_REPAIR_QUEUE, queue);
    let (mut number, mut bytes) = (0_u32, 4);
    // SAFETY: an open socket, and an integer of the length that is told.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUEUE_SEQ,
            (&raw mut number).cast(),
            &raw mut bytes,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    number
}

/// What a socket expects next and what it sends next: one that can be repaired tells.
pub fn numbers_of(socket: &TcpStream) -> (u32, u32) {
    set(socket, libc::TCP_REPAIR, 1);
    let numbers = (queue_ends_at(socket, RECEIVE_QUEUE), queue_ends_at(socket, SEND_QUEUE));
    set(socket, libc::TCP_REPAIR, REPAIR_OFF);
    // The end of a repair takes SO_REUSEADDR away (do_tcp_setsockopt(), Linux 3.5 to 6.18): the port would be
    // taken for a minute where this end comes to TIME_WAIT, since a program that is being started has the
    // other one open until then.
    setsockopt(socket, sockopt::ReuseAddr, &true).unwrap();
    numbers
}

impl Pair {
    /// Connects to a listening socket and accepts.
    pub fn at(listener: &TcpListener) -> Self {
        let client = connect(listener.local_addr().unwrap());
        let (server, _) = listener.accept().unwrap();
        let mut pair = Pair { client, server, expected: 0, next: 0 };
        pair.look();
        pair
    }

    /// Reads where the numbers stand now.
    pub fn look(&mut self) {
        (self.expected, self.next) = numbers_of(&self.server);
    }

    fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.client.local_addr().unwrap(), self.client.peer_addr().unwrap())
    }

    /// The client's bare FIN, in its place, that acknowledges everything.
    pub fn fin(&self) -> Segment {
        let (from, to) = self.ends();
        Segment::syn(from, to).with(|s| {
            (s.flags, s.seq, s.ack) = (FIN | ACK, self.expected, self.next);
        })
    }

    /// The RST that ends the connection for the client: it follows everything that was sent, and
    /// takes the FIN in. Of the FIN's options there are blanks.
    pub fn answer(&self, fin: &Segment) -> Vec<u8> {
        let mut frame = fin
            .clone()
            .with(|s| {
                (s.from, s.to) = (fin.to, fin.from);
                (s.flags, s.seq, s.ack) = (RST | ACK, self.next, fin.seq.wrapping_add(1));
                (s.window, s.options) = (0, vec![1; fin.options.len()]);
                s.hops = fin.hops.max(64);
            })
            .bytes();
        let link_from: [u8; 6] = fin.bytes()[6..12].try_into().unwrap();
        frame[..6].copy_from_slice(&link_from);
        frame[6..12].copy_from_slice(&fin.link_to);
        frame
    }
}

/// A frame whose sender is this host too: loopback takes in what answers it.
pub fn from_here(mut frame: Vec<u8>) -> Vec<u8> {
    frame[6..12].copy_from_slice(&HERE);
    frame
}
