// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The segments that are measured.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use etherparse::{PacketBuilder, TcpOptionElement};
use nix::libc;

/// A SYN as Linux sends it, 74 bytes, from port and address 0 of the network 10.10.0.0/16: the
/// generator fills these in.
pub fn syn(link_to: [u8; 6], to: std::net::SocketAddrV4) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 0x77], link_to)
        .ipv4([10, 10, 0, 0], to.ip().octets(), 64)
        .tcp(0, to.port(), 0x1234_5678, 64240)
        .syn()
        .options(&[
            TcpOptionElement::MaximumSegmentSize(1460),
            TcpOptionElement::SelectiveAcknowledgementPermitted,
            TcpOptionElement::Timestamp(0x0102_0304, 0),
            TcpOptionElement::Noop,
            TcpOptionElement::WindowScale(7),
        ])
        .expect("20 bytes of options fit");
    let mut frame = Vec::new();
    builder.write_to_vec(&mut frame, &[]).expect("a short packet");
    frame
}

/// An ACK without data, on the connection from `from` to `to`.
pub fn ack(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        unreachable!("the measurements are over IPv4");
    };
    let builder = PacketBuilder::ethernet2([0; 6], [0; 6])
        .ipv4(from.ip().octets(), to.ip().octets(), 64)
        .tcp(from.port(), to.port(), 1, 502)
        .ack(1)
        .options(&[
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(1, 1),
        ])
        .expect("12 bytes of options fit");
    let mut frame = Vec::new();
    builder.write_to_vec(&mut frame, &[]).expect("a short packet");
    frame
}

/// The client's FIN on the connection from `from` to `to`, 74 bytes as its SYN; the numbers are what
/// the server expects next, and what it sends next.
pub fn fin(from: SocketAddr, to: SocketAddr, (seq, ack): (u32, u32)) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        unreachable!("the measurements are over IPv4");
    };
    let mut options = [1; 20];
    options[10..12].copy_from_slice(&[8, 10]);
    let builder = PacketBuilder::ethernet2([0; 6], [0; 6])
        .ipv4(from.ip().octets(), to.ip().octets(), 64)
        .tcp(from.port(), to.port(), seq, 502)
        .ack(ack)
        .fin()
        .options_raw(&options)
        .expect("20 bytes of options fit");
    let mut frame = Vec::new();
    builder.write_to_vec(&mut frame, &[]).expect("a short packet");
    frame
}

/// What the server's end of a connection expects next, and what it sends next: a socket under repair
/// (linux/tcp.h) tells.
pub fn sequence_numbers(server: &TcpStream) -> (u32, u32) {
    const REPAIR_OFF: i32 = -1;
    const RECEIVE_QUEUE: i32 = 1;
    const SEND_QUEUE: i32 = 2;
    let fd = server.as_raw_fd();
    let set = |option: i32, value: i32| {
        // SAFETY: an open socket, and an integer of the length that is told.
        let done = unsafe {
            libc::setsockopt(fd, libc::IPPROTO_TCP, option, (&raw const value).cast(), 4)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    let ends_at = |queue: i32| {
        set(libc::TCP_REPAIR_QUEUE, queue);
        let (mut number, mut bytes) = (0_u32, 4);
        let to = (&raw mut number).cast();
        // SAFETY: an open socket, and an integer of the length that is told.
        let done = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, to, &raw mut bytes)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        number
    };
    set(libc::TCP_REPAIR, 1);
    let numbers = (ends_at(RECEIVE_QUEUE), ends_at(SEND_QUEUE));
    set(libc::TCP_REPAIR, REPAIR_OFF);
    numbers
}
