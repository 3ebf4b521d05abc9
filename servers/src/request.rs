// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a client asked for.

/// Header fields a request may have, and bytes it may take.
const FIELDS_MAX: usize = 64;
pub(crate) const HEAD_MAX_BYTES: usize = 16 * 1024;

/// A request understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What to send.
    pub target: Target,
    /// Whether the body is left out (HEAD).
    pub head_only: bool,
    /// Whether the connection stays open afterwards.
    pub keep_alive: bool,
    /// Bytes that the request's head takes.
    pub head_bytes: usize,
    /// Bytes of a request body, which is skipped.
    pub body_bytes: u64,
}

/// What the path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Any other path: the one-packet reply.
    OnePacket,
    /// `/bytes/N`.
    Bytes(u64),
}

/// Why a request is refused. Its connection is closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    Halted,
    MethodUnknown,
    HeadTooLarge,
    NotImplemented,
}

impl Refusal {
    pub(crate) fn status_line(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::MethodUnknown => "405 Method Not Allowed",
            Self::Halted => "408 Request Timeout",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::NotImplemented => "501 Not Implemented",
        }
    }
}

/// Reads the first request in the bytes; `None` means that more of it must come.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Request>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let head_bytes = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_MAX_BYTES => {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLarge),
        Err(_) => return Err(Refusal::Malformed),
    };
    let head_only = match parsed.method {
        Some("GET" | "POST" | "PUT") => false,
        Some("HEAD") => true,
        _ => return Err(Refusal::MethodUnknown),
    };
    let mut request = Request {
        target: target(parsed.path.unwrap_or("/"))?,
        head_only,
        keep_alive: parsed.version == Some(1),
        head_bytes,
        body_bytes: 0,
    };
    for field in parsed.headers.iter() {
        if field.name.eq_ignore_ascii_case("connection") {
            if lists(field.value, "close") {
                request.keep_alive = false;
            } else if lists(field.value, "keep-alive") {
                request.keep_alive = true;
            }
        } else if field.name.eq_ignore_ascii_case("content-length") {
            request.body_bytes = number(field.value).ok_or(Refusal::Malformed)?;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Refusal::NotImplemented);
        }
    }
    Ok(Some(request))
}

fn target(path: &str) -> Result<Target, Refusal> {
    match path.strip_prefix("/bytes/") {
        None => Ok(Target::OnePacket),
        Some(count) => number(count.as_bytes()).map(Target::Bytes).ok_or(Refusal::Malformed),
    }
}

/// Digits only: `+1`, which `parse` would take, is no length.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn lists(value: &[u8], token: &str) -> bool {
    value
        .split(|&byte| byte == b',')
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_stay_open_as_their_version_says() {
        let open = |text: &str| parse(text.as_bytes()).unwrap().unwrap().keep_alive;
        assert!(open("GET / HTTP/1.1\r\n\r\n"));
        assert!(!open("GET / HTTP/1.1\r\nConnection: foo, Close\r\n\r\n"));
        assert!(!open("GET / HTTP/1.0\r\n\r\n"));
        assert!(open("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn half_a_request_waits_for_the_rest() {
        let whole = b"GET /bytes/12 HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Ok(None), "{cut} bytes");
        }
        let request = parse(whole).unwrap().unwrap();
        assert_eq!(request.target, Target::Bytes(12));
        assert_eq!(request.head_bytes, whole.len());
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        let refusal = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert_eq!(refusal("\x16\x03\x01\x02\x00\x01"), Refusal::Malformed);
        assert_eq!(refusal("GET /bytes/-1 HTTP/1.1\r\n\r\n"), Refusal::Malformed);
        assert_eq!(refusal("BREW / HTTP/1.1\r\n\r\n"), Refusal::MethodUnknown);
        assert_eq!(refusal("POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n"), Refusal::Malformed);
        assert_eq!(
            refusal("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Refusal::NotImplemented
        );
        let endless = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(HEAD_MAX_BYTES));
        assert_eq!(refusal(&endless), Refusal::HeadTooLarge);
    }
}
