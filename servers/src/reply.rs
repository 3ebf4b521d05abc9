// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reply on its way out.

use std::io::{self, IoSlice, Write};

use crate::request::{Refusal, Request, Target};

/// Bodies are made of this, over and over: no reply of any length needs memory of its own.
static PATTERN: [u8; PATTERN_BYTES] = [b'~'; PATTERN_BYTES];
const PATTERN_BYTES: usize = 64 * 1024;

/// What remains to be sent of a reply.
#[derive(Debug)]
pub(crate) struct Reply {
    head: Vec<u8>,
    head_sent: usize,
    body_left_bytes: u64,
    /// Whether the connection closes once it is sent.
    pub closes: bool,
    /// Whether it is an answer, rather than a refusal.
    pub is_answer: bool,
}

impl Reply {
    /// The answer to a request; the one-packet reply has a body of so many bytes.
    pub(crate) fn to(request: &Request, one_packet_body_bytes: u64) -> Self {
        let length = match request.target {
            Target::OnePacket => one_packet_body_bytes,
            Target::Bytes(count) => count,
        };
        Self {
            head: head("200 OK", length, request.keep_alive),
            head_sent: 0,
            body_left_bytes: if request.head_only { 0 } else { length },
            closes: !request.keep_alive,
            is_answer: true,
        }
    }

    pub(crate) fn refusing(refusal: Refusal) -> Self {
        Self {
            head: head(refusal.status_line(), 0, false),
            head_sent: 0,
            body_left_bytes: 0,
            closes: true,
            is_answer: false,
        }
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.head_sent == self.head.len() && self.body_left_bytes == 0
    }

    /// Sends as much as goes, head and body in one call so that a short reply is one packet.
    pub(crate) fn send(&mut self, out: &mut impl Write) -> io::Result<u64> {
        let body = usize::try_from(self.body_left_bytes)
            .map_or(PATTERN_BYTES, |left| left.min(PATTERN_BYTES));
        let sent = out.write_vectored(&[
            IoSlice::new(&self.head[self.head_sent..]),
            IoSlice::new(&PATTERN[..body]),
        ])?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_head = sent.min(self.head.len() - self.head_sent);
        self.head_sent += of_head;
        self.body_left_bytes -= (sent - of_head) as u64;
        Ok(sent as u64)
    }
}

fn head(status: &str, length_bytes: u64, keep_alive: bool) -> Vec<u8> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    format!(
        "HTTP/1.1 {status}\r\nServer: userver\r\nContent-Type: text/plain\r\n\
         Content-Length: {length_bytes}\r\nConnection: {connection}\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes at a time, like a full socket buffer.
    struct Sips(Vec<u8>);

    impl Write for Sips {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(7);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reply_sent_in_sips_is_whole() {
        let request = crate::request::parse(b"GET /bytes/100 HTTP/1.1\r\n\r\n").unwrap().unwrap();
        let mut reply = Reply::to(&request, 5);
        let mut out = Sips(Vec::new());
        let mut sent = 0;
        while !reply.is_sent() {
            sent += reply.send(&mut out).unwrap();
        }
        let text = String::from_utf8(out.0).unwrap();
        assert_eq!(text.len() as u64, sent);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("Content-Length: 100"));
        assert_eq!(body.len(), 100);
    }
}
