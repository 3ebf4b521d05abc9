// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server in a thread of its own, and a client that reads one reply at a time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_servers::{EventsKind, Observer, Server, ServerKind, Settings, Statistics, Stopper};

/// Enough for stories of a few clients; those of many say so.
const KNOT_THREADS: u32 = 16;

/// A server, and how it gets its events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    pub server: ServerKind,
    pub events: Option<EventsKind>,
}

impl Way {
    pub fn start(self, change: impl FnOnce(&mut Settings)) -> Running {
        let mut settings = Settings {
            server: self.server,
            events: self.events,
            threads: self.threads(KNOT_THREADS),
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            ..Settings::default()
        };
        change(&mut settings);
        let server = Server::bind(&settings).unwrap();
        Running {
            address: server.addresses()[0],
            stopper: server.stopper(),
            observer: server.observer(),
            thread: std::thread::spawn(|| server.run().unwrap()),
        }
    }

    /// So many, where there are any.
    pub fn threads(self, count: u32) -> Option<NonZeroU32> {
        let has_threads = matches!(self.server, ServerKind::KnotC | ServerKind::KnotA);
        NonZeroU32::new(count).filter(|_| has_threads)
    }
}

pub struct Running {
    pub address: SocketAddr,
    pub observer: Observer,
    stopper: Stopper,
    thread: JoinHandle<Statistics>,
}

impl Running {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    pub fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// Stops it. Whatever it did, its figures do not contradict each other.
    pub fn stop(self) -> Statistics {
        self.stopper.stop();
        let statistics = self.thread.join().unwrap();
        assert_eq!(statistics.contradiction(), None, "{statistics}");
        statistics
    }
}

/// A reply, taken apart.
pub struct Reply {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// The value of a header field, named in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(field, value)| (field.to_lowercase() == name).then_some(value))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Asks for a path, and leaves the connection open.
pub fn get(stream: &mut TcpStream, path: &str) -> Reply {
    // In one piece: formatted writes are sent as they come.
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    read_reply(stream, false)
}

/// Reads exactly one reply: what comes after it stays in the socket.
pub fn read_reply(stream: &mut TcpStream, is_without_body: bool) -> Reply {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut reply = Reply { status, head, body: Vec::new() };
    if !is_without_body {
        let length: usize = reply.field("content-length").unwrap().parse().unwrap();
        reply.body.resize(length, 0);
        stream.read_exact(&mut reply.body).unwrap();
    }
    reply
}
