// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reply on its way out.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::libc::{MSG_MORE, MSG_NOSIGNAL};
use nix::sys::sendfile::sendfile64;
use socket2::SockRef;

use crate::files::Absence;
use crate::request::{Method, Refusal, Request};
use crate::resource::{Contents, Resource};

/// Bodies that are no file are made of this, over and over: no reply of any length needs memory of
/// its own.
static PATTERN: [u8; PATTERN_BYTES] = [b'~'; PATTERN_BYTES];
const PATTERN_BYTES: usize = 64 * 1024;
/// The most that sendfile is asked for at a time.
const SENDFILE_MAX_BYTES: u64 = 2 << 20;
/// Room for most heads.
const HEAD_BYTES: usize = 256;

/// What remains to be sent of a reply.
#[derive(Debug)]
pub(crate) struct Reply {
    head: Vec<u8>,
    head_sent: usize,
    body: Body,
    /// Whether the connection closes once it is sent.
    pub closes: bool,
    pub outcome: Outcome,
}

/// What a reply says, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Here it is.
    Answer,
    /// The client has it.
    NotModified,
    /// There is no such thing, or not for this client.
    NotFound,
    /// It is there, and cannot be had just now.
    Unavailable,
    /// This is no request to answer.
    Refusal,
}

/// What remains to be sent of a body.
#[derive(Debug)]
enum Body {
    Pattern { left_bytes: u64 },
    InMemory { bytes: Arc<[u8]>, sent: usize },
    OnDisk { file: Arc<File>, offset: i64, left_bytes: u64 },
}

impl Body {
    const NONE: Self = Self::Pattern { left_bytes: 0 };

    fn of(contents: &Contents) -> Self {
        match contents {
            Contents::InMemory(bytes) => Self::InMemory { bytes: Arc::clone(bytes), sent: 0 },
            Contents::OnDisk(file, length_bytes) => {
                Self::OnDisk { file: Arc::clone(file), offset: 0, left_bytes: *length_bytes }
            }
        }
    }

    fn is_sent(&self) -> bool {
        match self {
            Self::Pattern { left_bytes } | Self::OnDisk { left_bytes, .. } => *left_bytes == 0,
            Self::InMemory { bytes, sent } => *sent == bytes.len(),
        }
    }

    /// As much of what remains as is in memory.
    fn at_hand(&self) -> &[u8] {
        match self {
            Self::Pattern { left_bytes } => {
                let length = usize::try_from(*left_bytes).unwrap_or(PATTERN_BYTES);
                &PATTERN[..length.min(PATTERN_BYTES)]
            }
            Self::InMemory { bytes, sent } => &bytes[*sent..],
            Self::OnDisk { .. } => &[],
        }
    }

    fn take(&mut self, count: usize) {
        match self {
            Self::Pattern { left_bytes } | Self::OnDisk { left_bytes, .. } => {
                *left_bytes -= count as u64;
            }
            Self::InMemory { sent, .. } => *sent += count,
        }
    }
}

impl Reply {
    /// So many bytes.
    pub(crate) fn of_pattern(length_bytes: u64, request: &Request) -> Self {
        let head = Head::new("200 OK").media_type("text/plain").length(length_bytes);
        Self::new(head, Body::Pattern { left_bytes: length_bytes }, Outcome::Answer, request)
    }

    /// A few words.
    pub(crate) fn of_text(text: &str, request: &Request) -> Self {
        let head = Head::new("200 OK").media_type("text/plain").length(text.len() as u64);
        let body = Body::InMemory { bytes: text.as_bytes().into(), sent: 0 };
        Self::new(head, body, Outcome::Answer, request)
    }

    /// A file.
    pub(crate) fn of_resource(resource: &Resource, request: &Request) -> Self {
        let head = Head::new("200 OK")
            .media_type(&resource.media_type)
            .lines(&resource.validators)
            .length(resource.length_bytes());
        Self::new(head, Body::of(&resource.contents), Outcome::Answer, request)
    }

    /// What the client has is what there is.
    pub(crate) fn not_modified(resource: &Resource, request: &Request) -> Self {
        let head = Head::new("304 Not Modified").lines(&resource.validators);
        Self::new(head, Body::NONE, Outcome::NotModified, request)
    }

    /// There is no file to send. The connection goes on.
    pub(crate) fn absent(absence: Absence, request: &Request) -> Self {
        let outcome = match absence {
            Absence::NotFound | Absence::Forbidden => Outcome::NotFound,
            Absence::Unavailable => Outcome::Unavailable,
        };
        let head = Head::new(absence.status_line()).media_type("text/plain").length(0);
        Self::new(head, Body::NONE, outcome, request)
    }

    pub(crate) fn refusing(refusal: Refusal) -> Self {
        let head = Head::new(refusal.status_line()).media_type("text/plain").length(0);
        Self {
            head: head.end(false),
            head_sent: 0,
            body: Body::NONE,
            closes: true,
            outcome: Outcome::Refusal,
        }
    }

    fn new(head: Head, body: Body, outcome: Outcome, request: &Request) -> Self {
        Self {
            head: head.end(request.keep_alive),
            head_sent: 0,
            body: if request.method == Method::Head { Body::NONE } else { body },
            closes: !request.keep_alive,
            outcome,
        }
    }

    /// Its head, and as much of its body as is in memory.
    pub(crate) fn at_hand(&self) -> Vec<u8> {
        [&self.head, self.body.at_hand()].concat()
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.head_sent == self.head.len() && self.body.is_sent()
    }

    /// Sends as much as goes in one system call, and says how many bytes that was.
    ///
    /// # Errors
    /// Those of the socket and of the file; [`io::ErrorKind::UnexpectedEof`] when the file is
    /// shorter than it was when its length was promised.
    pub(crate) fn send(&mut self, out: &impl AsFd) -> io::Result<u64> {
        let head = &self.head[self.head_sent..];
        if let Body::OnDisk { file, offset, left_bytes } = &mut self.body
            && head.is_empty()
        {
            let sent = send_file(out, file, offset, *left_bytes)?;
            self.body.take(sent);
            return Ok(sent as u64);
        }
        // The head of a file waits for the first bytes of its body, to share a packet with them
        // (Shukla 2005, 3.1.1: cork). One flag of this call does it: sendfile is the uncorking.
        let flags = match self.body {
            Body::OnDisk { .. } => MSG_NOSIGNAL | MSG_MORE,
            Body::Pattern { .. } | Body::InMemory { .. } => MSG_NOSIGNAL,
        };
        let parts = [IoSlice::new(head), IoSlice::new(self.body.at_hand())];
        let sent = SockRef::from(out).send_vectored_with_flags(&parts, flags)?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_head = sent.min(head.len());
        self.head_sent += of_head;
        self.body.take(sent - of_head);
        Ok(sent as u64)
    }
}

fn send_file(out: &impl AsFd, file: &File, offset: &mut i64, left_bytes: u64) -> io::Result<usize> {
    // Fits: it is at most SENDFILE_MAX_BYTES.
    let count = left_bytes.min(SENDFILE_MAX_BYTES) as usize;
    match sendfile64(out, file, Some(offset), count)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        sent => Ok(sent),
    }
}

/// A reply's head in the making.
struct Head(Vec<u8>);

impl Head {
    fn new(status: &str) -> Self {
        Self(Vec::with_capacity(HEAD_BYTES))
            .lines("HTTP/1.1 ")
            .lines(status)
            .lines("\r\nServer: tidelab\r\n")
    }

    fn lines(mut self, lines: &str) -> Self {
        self.0.extend_from_slice(lines.as_bytes());
        self
    }

    fn media_type(self, media_type: &str) -> Self {
        self.lines("Content-Type: ").lines(media_type).lines("\r\n")
    }

    fn length(mut self, bytes: u64) -> Self {
        // Writing into a Vec does not fail.
        let _ = write!(self.0, "Content-Length: {bytes}\r\n");
        self
    }

    fn end(self, keep_alive: bool) -> Vec<u8> {
        let connection = if keep_alive { "keep-alive" } else { "close" };
        self.lines("Connection: ").lines(connection).lines("\r\n\r\n").0
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use super::*;
    use crate::resource::IN_MEMORY_MAX_BYTES;

    fn get() -> Request {
        crate::request::parse(b"GET / HTTP/1.1\r\n\r\n").unwrap().unwrap()
    }

    fn resource(contents: &[u8]) -> (File, Resource) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        file.rewind().unwrap();
        let metadata = file.metadata().unwrap();
        let served = file.try_clone().unwrap();
        (file, Resource::load(served, &metadata, Path::new("a.png")).unwrap())
    }

    /// Sends through a socket with little room, to a client that takes a few bytes at a time.
    fn sip(mut reply: Reply) -> (String, Vec<u8>) {
        let (out, mut client) = UnixStream::pair().unwrap();
        SockRef::from(&out).set_send_buffer_size(1).unwrap();
        out.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let (mut received, mut sent, mut sip) = (Vec::new(), 0, [0; 997]);
        let mut waits = 0;
        while !reply.is_sent() || (received.len() as u64) < sent {
            match if reply.is_sent() { Ok(0) } else { reply.send(&out) } {
                Ok(count) => sent += count,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    waits += 1;
                }
            }
            if let Ok(count) = client.read(&mut sip) {
                received.extend_from_slice(&sip[..count]);
            }
        }
        assert!(waits > 0, "the socket was never full");
        let end = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        (String::from_utf8(received[..end].to_vec()).unwrap(), received[end..].to_vec())
    }

    #[test]
    fn a_pattern_sent_in_sips_is_whole() {
        let (head, body) = sip(Reply::of_pattern(200_000, &get()));
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("Content-Length: 200000\r\n"));
        assert_eq!(body, vec![b'~'; 200_000]);
    }

    #[test]
    fn files_sent_in_sips_are_whole() {
        for length in [IN_MEMORY_MAX_BYTES, 200_000, 3 * SENDFILE_MAX_BYTES + 5] {
            let contents: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let (_, resource) = resource(&contents);
            let (head, body) = sip(Reply::of_resource(&resource, &get()));
            assert!(head.contains("Content-Type: image/png\r\n"), "{head}");
            assert!(head.contains(&format!("Content-Length: {length}\r\n")), "{head}");
            assert!(body == contents, "{length} bytes");
        }
    }

    #[test]
    fn a_file_that_shrinks_ends_in_an_error() {
        let (file, resource) = resource(&vec![b'a'; 100_000]);
        file.set_len(50_000).unwrap();
        let mut reply = Reply::of_resource(&resource, &get());
        let (out, _client) = UnixStream::pair().unwrap();
        let error = loop {
            assert!(!reply.is_sent());
            if let Err(error) = reply.send(&out) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
