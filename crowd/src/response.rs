// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reply on its way in.

const FIELDS_MAX: usize = 64;
const HEAD_MAX_BYTES: usize = 16 * 1024;

/// How much of a reply has arrived.
#[derive(Debug, Default)]
pub(crate) struct Response {
    /// The head's beginning, when it did not arrive in one piece; empty otherwise.
    head: Vec<u8>,
    body: Body,
    status: u16,
}

#[derive(Clone, Copy, Debug, Default)]
enum Body {
    /// The head is not complete.
    #[default]
    Unknown,
    Left(u64),
    /// No length was given: the end of the connection is the end of the reply.
    UntilClose,
}

/// What some more bytes, or the end of them, made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to come.
    Partial,
    /// A whole reply of this status.
    Whole(u16),
    /// Not HTTP, or a kind that we cannot follow (chunked).
    Nonsense,
}

impl Response {
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Progress {
        match self.body {
            Body::Unknown => {}
            Body::UntilClose => return Progress::Partial,
            Body::Left(left) => return self.take_body(left, bytes.len()),
        }
        // Nearly every reply is one packet: then nothing is copied.
        if self.head.is_empty() {
            return self.take_head(bytes).unwrap_or_else(|| {
                self.head.extend_from_slice(bytes);
                Progress::Partial
            });
        }
        self.head.extend_from_slice(bytes);
        let head = std::mem::take(&mut self.head);
        self.take_head(&head).unwrap_or_else(|| {
            if head.len() > HEAD_MAX_BYTES {
                return Progress::Nonsense;
            }
            self.head = head;
            Progress::Partial
        })
    }

    /// The server closed its side.
    pub(crate) fn end(&self) -> Progress {
        match self.body {
            Body::UntilClose => Progress::Whole(self.status),
            _ => Progress::Partial,
        }
    }

    /// `None` when the head is not complete.
    fn take_head(&mut self, bytes: &[u8]) -> Option<Progress> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Response::new(&mut fields);
        let length = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return None,
            Err(_) => return Some(Progress::Nonsense),
        };
        self.status = parsed.code.unwrap_or(0);
        let mut body = Body::UntilClose;
        for field in parsed.headers.iter() {
            if field.name.eq_ignore_ascii_case("transfer-encoding") {
                return Some(Progress::Nonsense);
            }
            if field.name.eq_ignore_ascii_case("content-length") {
                let digits = std::str::from_utf8(field.value).ok();
                match digits.and_then(|digits| digits.parse().ok()) {
                    Some(left) => body = Body::Left(left),
                    None => return Some(Progress::Nonsense),
                }
            }
        }
        self.body = body;
        match body {
            Body::Left(left) => Some(self.take_body(left, bytes.len() - length)),
            _ => Some(Progress::Partial),
        }
    }

    fn take_body(&mut self, left: u64, arrived: usize) -> Progress {
        let left = left.saturating_sub(arrived as u64);
        self.body = Body::Left(left);
        if left == 0 { Progress::Whole(self.status) } else { Progress::Partial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_at_its_last_byte_however_it_is_cut() {
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for cut in 1..reply.len() {
            let mut response = Response::default();
            assert_eq!(response.take(&reply[..cut]), Progress::Partial, "cut at {cut}");
            assert_eq!(response.take(&reply[cut..]), Progress::Whole(200), "cut at {cut}");
        }
        let mut response = Response::default();
        assert_eq!(response.take(reply), Progress::Whole(200));
    }

    #[test]
    fn without_a_length_the_end_is_the_end() {
        let mut response = Response::default();
        assert_eq!(response.take(b"HTTP/1.0 503 Busy\r\n\r\nsorry"), Progress::Partial);
        assert_eq!(response.end(), Progress::Whole(503));
        let mut early = Response::default();
        assert_eq!(
            early.take(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"),
            Progress::Partial
        );
        assert_eq!(early.end(), Progress::Partial);
    }

    #[test]
    fn what_is_no_reply_is_nonsense() {
        for bytes in [
            &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        ] {
            assert_eq!(Response::default().take(bytes), Progress::Nonsense);
        }
    }
}
