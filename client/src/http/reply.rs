// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of a reply has come.

use std::mem::MaybeUninit;

use super::chunk::Chunk;

const FIELDS_MAX: usize = 64;
const HEAD_MAX_BYTES: usize = 16 * 1024;

/// What some more bytes, or the end of them, made of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to come.
    Partial,
    /// The reply is whole.
    Whole {
        /// Its status.
        status: u16,
        /// Whether the server takes another request on this connection (RFC 9112, section 9.3).
        keeps_alive: bool,
    },
    /// Not HTTP.
    Nonsense,
}

/// A reply on its way in.
#[derive(Debug, Default)]
pub struct Reply {
    /// The head's beginning, when it did not arrive in one piece.
    #[expect(clippy::box_collection, reason = "8 bytes in every attempt, where a Vec takes 24")]
    beginning: Option<Box<Vec<u8>>>,
    body: Body,
    status: u16,
    keeps_alive: bool,
    is_to_head: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Body {
    /// The head is not complete.
    #[default]
    Unknown,
    Left(u64),
    Chunked(Chunk),
    /// No length was given: the end of the connection is the end of the reply.
    UntilClose,
    Whole,
}

impl Reply {
    /// A reply that is still to come, to a HEAD or to another request.
    pub(super) fn to(is_to_head: bool) -> Self {
        Self { is_to_head, ..Self::default() }
    }

    /// Takes what came and says how many bytes of it were this reply's.
    pub fn take(&mut self, bytes: &[u8]) -> (Progress, usize) {
        let from = match self.body {
            Body::Unknown => match self.take_head(bytes) {
                Ok(from) => from,
                Err(progress) => return (progress, bytes.len()),
            },
            _ => 0,
        };
        match self.take_body(&bytes[from..]) {
            Some(used) if self.body == Body::Whole => (self.whole(), from + used),
            Some(used) => (Progress::Partial, from + used),
            None => (Progress::Nonsense, bytes.len()),
        }
    }

    /// The server closed its side.
    #[must_use]
    pub fn end(&self) -> Progress {
        if self.body == Body::UntilClose { self.whole() } else { Progress::Partial }
    }

    fn whole(&self) -> Progress {
        Progress::Whole { status: self.status, keeps_alive: self.keeps_alive }
    }

    /// Where in `bytes` the body begins, once the head is complete.
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Progress> {
        // Nearly every reply is one segment: then nothing is copied.
        let Some(mut head) = self.beginning.take() else {
            return match self.read_head(bytes)? {
                Some(length) => Ok(length),
                None => {
                    self.beginning = Some(Box::new(bytes.to_vec()));
                    Err(Progress::Partial)
                }
            };
        };
        let before = head.len();
        head.extend_from_slice(bytes);
        match self.read_head(&head)? {
            // What had come before was no complete head, so the body begins in what came now.
            Some(length) => Ok(length.saturating_sub(before)),
            None if head.len() > HEAD_MAX_BYTES => Err(Progress::Nonsense),
            None => {
                self.beginning = Some(head);
                Err(Progress::Partial)
            }
        }
    }

    /// The length of the head with all interim heads (status 1xx) before it, if it is complete.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Progress> {
        let mut at = 0;
        loop {
            // Left uninitialised, since filling it would cost more than reading a usual head.
            let mut fields = [MaybeUninit::uninit(); FIELDS_MAX];
            let mut parsed = httparse::Response::new(&mut []);
            let result = httparse::ParserConfig::default().parse_response_with_uninit_headers(
                &mut parsed,
                &bytes[at..],
                &mut fields,
            );
            match result {
                Ok(httparse::Status::Complete(length)) => at += length,
                Ok(httparse::Status::Partial) => return Ok(None),
                Err(_) => return Err(Progress::Nonsense),
            }
            self.status = parsed.code.unwrap_or(0);
            // 101 would be another protocol from here on, which nobody asked for.
            if (100..200).contains(&self.status) && self.status != 101 {
                continue;
            }
            self.keeps_alive = parsed.version == Some(1);
            self.body = self.body_announced(parsed.headers).ok_or(Progress::Nonsense)?;
            return Ok(Some(at));
        }
    }

    /// How the body ends (RFC 9112, section 6.3); `None` if that makes no sense.
    fn body_announced(&mut self, fields: &[httparse::Header<'_>]) -> Option<Body> {
        let mut length = None;
        let mut chunked = None;
        for field in fields {
            if field.name.eq_ignore_ascii_case("content-length") {
                let digits = std::str::from_utf8(field.value).ok()?;
                let given = digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)?;
                let given: u64 = given.parse().ok()?;
                if length.is_some_and(|before| before != given) {
                    return None;
                }
                length = Some(given);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = Some(last_word(field.value).eq_ignore_ascii_case(b"chunked"));
            } else if field.name.eq_ignore_ascii_case("connection") {
                for word in field.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if word.eq_ignore_ascii_case(b"close") {
                        self.keeps_alive = false;
                    } else if word.eq_ignore_ascii_case(b"keep-alive") {
                        self.keeps_alive = true;
                    }
                }
            }
        }
        if self.is_to_head || matches!(self.status, 204 | 304) {
            return Some(Body::Left(0));
        }
        let body = match (chunked, length) {
            (Some(true), _) => Body::Chunked(Chunk::Size(0, 0)),
            (None, Some(length)) => Body::Left(length),
            _ => Body::UntilClose,
        };
        self.keeps_alive &= body != Body::UntilClose;
        Some(body)
    }

    /// How many of these bytes are the body's; `None` if they make no sense.
    fn take_body(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.body {
            Body::Unknown | Body::Whole => Some(0),
            Body::UntilClose => Some(bytes.len()),
            Body::Left(left) => {
                let used = left.min(bytes.len() as u64);
                self.body = if used == left { Body::Whole } else { Body::Left(left - used) };
                Some(used as usize)
            }
            Body::Chunked(chunk) => self.take_chunks(chunk, bytes),
        }
    }

    fn take_chunks(&mut self, mut chunk: Chunk, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if let Chunk::Data(left) = chunk {
                let used = left.min(rest.len() as u64);
                at += used as usize;
                chunk = if used == left { Chunk::DataEnd } else { Chunk::Data(left - used) };
                continue;
            }
            at += 1;
            match chunk.after(rest[0])? {
                Some(next) => chunk = next,
                None => {
                    self.body = Body::Whole;
                    return Some(at);
                }
            }
        }
        self.body = Body::Chunked(chunk);
        Some(at)
    }
}

fn last_word(value: &[u8]) -> &[u8] {
    value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Request;

    const GET: fn() -> Reply = || Request::get("h", "/").reply();

    fn whole(status: u16, keeps_alive: bool) -> Progress {
        Progress::Whole { status, keeps_alive }
    }

    /// Gives the reply in pieces and says what came of it, and how much was its own.
    fn given(pieces: &[&[u8]], mut reply: Reply) -> (Progress, usize) {
        let mut own = 0;
        for piece in pieces {
            let (progress, used) = reply.take(piece);
            own += used;
            if progress != Progress::Partial {
                return (progress, own);
            }
        }
        (reply.end(), own)
    }

    #[test]
    fn a_reply_is_whole_at_its_last_byte_however_it_is_cut() {
        let replies: [(&[u8], u16); 7] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200),
            (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 404),
            (b"HTTP/1.1 204 Nothing\r\n\r\n", 204),
            (b"HTTP/1.1 304 Same\r\nContent-Length: 500\r\n\r\n", 304),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5;a=b\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nSum: 1\r\n\r\n",
                200,
            ),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200),
        ];
        for (reply, status) in replies {
            let text = String::from_utf8_lossy(reply);
            let expected = (whole(status, true), reply.len());
            for cut in 0..=reply.len() {
                assert_eq!(given(&[&reply[..cut], &reply[cut..]], GET()), expected, "{cut} {text}");
            }
            let each: Vec<&[u8]> = reply.chunks(1).collect();
            assert_eq!(given(&each, GET()), expected, "{text}");
            let more = [reply, b"HTTP/1.1 2"].concat();
            assert_eq!(given(&[&more], GET()), expected, "{text}");
            for end in 0..reply.len() {
                assert_eq!(given(&[&reply[..end]], GET()).0, Progress::Partial, "{end} {text}");
            }
        }
    }

    #[test]
    fn without_a_length_the_end_is_the_end() {
        let reply = b"HTTP/1.1 503 Busy\r\n\r\nsorry";
        assert_eq!(given(&[reply], GET()), (whole(503, false), reply.len()));
        for cut in 1..reply.len() {
            assert_eq!(given(&[&reply[..cut], &reply[cut..]], GET()).0, whole(503, false));
        }
    }

    #[test]
    fn a_reply_to_head_has_no_body() {
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let head = Request::head("h", "/");
        assert!(head.bytes().starts_with(b"HEAD / HTTP/1.1\r\nHost: h\r\n"));
        assert_eq!(given(&[reply], head.reply()), (whole(200, true), reply.len()));
    }

    #[test]
    fn who_keeps_the_connection() {
        for (head, keeps_alive) in [
            ("HTTP/1.1 200 OK\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n", false),
            ("HTTP/1.0 200 OK\r\n", false),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", true),
        ] {
            let reply = format!("{head}Content-Length: 0\r\n\r\n");
            assert_eq!(given(&[reply.as_bytes()], GET()).0, whole(200, keeps_alive), "{head}");
        }
    }

    #[test]
    fn what_is_no_reply_is_nonsense() {
        for bytes in [
            &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab",
        ] {
            assert_eq!(given(&[bytes], GET()).0, Progress::Nonsense);
        }
        let endless = [b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'a'; 20_000]].concat();
        let pieces: Vec<&[u8]> = endless.chunks(1000).collect();
        assert_eq!(given(&pieces, GET()).0, Progress::Nonsense);
    }
}
