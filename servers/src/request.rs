// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a client asked for.

use std::time::SystemTime;

/// Header fields a request may have, and bytes it may take.
const FIELDS_MAX: usize = 64;
pub(crate) const HEAD_MAX_BYTES: usize = 16 * 1024;

/// A request understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub method: Method,
    /// The request target as it was sent (RFC 9112, 3.2).
    pub target: String,
    /// Whether the connection stays open afterwards.
    pub keep_alive: bool,
    /// Bytes that the request's head takes.
    pub head_bytes: usize,
    /// Bytes of a request body, which is skipped.
    pub body_bytes: u64,
    /// What the client has already: the entity tags of If-None-Match.
    pub none_match: Option<String>,
    /// What the client has already: the date of If-Modified-Since, when it is one.
    pub modified_since: Option<SystemTime>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    /// POST or PUT: the client sends a body.
    Send,
    /// CLIENT_CLOSE: the client closes, and wants no reply (Faber, Touch and Yue, "The TIME-WAIT
    /// state in TCP and Its Effect on Busy Servers", section 4.2).
    ClientClose,
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
        Ok(httparse::Status::Complete(length)) if length > HEAD_MAX_BYTES => {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_MAX_BYTES => {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLarge),
        Err(_) => return Err(Refusal::Malformed),
    };
    let method = match parsed.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST" | "PUT") => Method::Send,
        Some("CLIENT_CLOSE") => Method::ClientClose,
        _ => return Err(Refusal::MethodUnknown),
    };
    let mut request = Request {
        method,
        target: parsed.path.unwrap_or("/").to_owned(),
        keep_alive: parsed.version == Some(1),
        head_bytes,
        body_bytes: 0,
        none_match: None,
        modified_since: None,
    };
    let (mut closes, mut body_bytes) = (false, None);
    for field in parsed.headers.iter() {
        if field.name.eq_ignore_ascii_case("connection") {
            closes |= lists(field.value, "close");
            request.keep_alive |= lists(field.value, "keep-alive");
        } else if field.name.eq_ignore_ascii_case("content-length") {
            let told = number(field.value).ok_or(Refusal::Malformed)?;
            // Of two lengths one is wrong, and which cannot be told (RFC 9112, 6.3).
            if body_bytes.is_some_and(|other| other != told) {
                return Err(Refusal::Malformed);
            }
            body_bytes = Some(told);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Refusal::NotImplemented);
        } else if field.name.eq_ignore_ascii_case("if-none-match") {
            let tags = request.none_match.get_or_insert_default();
            // A field sent twice is one list (RFC 9110, 5.3).
            tags.push_str(&String::from_utf8_lossy(field.value));
            tags.push(',');
        } else if field.name.eq_ignore_ascii_case("if-modified-since") {
            let date = std::str::from_utf8(field.value).ok();
            request.modified_since = date.and_then(|date| httpdate::parse_http_date(date).ok());
        }
    }
    // Whatever else it says (RFC 9112, 9.3).
    request.keep_alive &= !closes;
    request.body_bytes = body_bytes.unwrap_or(0);
    Ok(Some(request))
}

/// Digits only: `+1`, which `parse` would take, is no length.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
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
        assert!(!open("GET / HTTP/1.1\r\nConnection: keep-alive, close\r\n\r\n"));
        for [first, second] in [["close", "keep-alive"], ["keep-alive", "close"]] {
            let fields = format!("Connection: {first}\r\nConnection: {second}\r\n");
            assert!(!open(&format!("GET / HTTP/1.1\r\n{fields}\r\n")), "{fields}");
        }
    }

    #[test]
    fn a_body_has_one_length_however_often_it_is_told() {
        let length = |first: &str, second: &str| {
            let fields = format!("Content-Length: {first}\r\nContent-Length: {second}\r\n");
            let request = parse(format!("POST / HTTP/1.1\r\n{fields}\r\n").as_bytes());
            request.map(|request| request.unwrap().body_bytes)
        };
        assert_eq!(length("7", "7"), Ok(7));
        assert_eq!(length("7", "8"), Err(Refusal::Malformed));
        assert_eq!(length("0", "7"), Err(Refusal::Malformed));
    }

    #[test]
    fn half_a_request_waits_for_the_rest() {
        let whole = b"GET /bytes/12 HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Ok(None), "{cut} bytes");
        }
        let request = parse(whole).unwrap().unwrap();
        assert_eq!(request.target, "/bytes/12");
        assert_eq!(request.head_bytes, whole.len());
    }

    #[test]
    fn what_the_client_has_is_understood() {
        let request = |fields: &str| {
            parse(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap().unwrap()
        };
        assert_eq!(request("").none_match, None);
        let tags = request("If-None-Match: \"a\"\r\nif-none-match: \"b\"\r\n").none_match.unwrap();
        assert!(tags.contains("\"a\",") && tags.contains("\"b\""), "{tags}");
        let since = |date: &str| request(&format!("If-Modified-Since: {date}\r\n")).modified_since;
        // The example of RFC 9110, 5.6.7, in its three spellings.
        let example = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777);
        assert_eq!(since("Sun, 06 Nov 1994 08:49:37 GMT"), Some(example));
        assert_eq!(since("Sunday, 06-Nov-94 08:49:37 GMT"), Some(example));
        assert_eq!(since("Sun Nov  6 08:49:37 1994"), Some(example));
        assert_eq!(since("yesterday"), None);
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        let refusal = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert_eq!(refusal("\x16\x03\x01\x02\x00\x01"), Refusal::Malformed);
        assert_eq!(refusal("BREW / HTTP/1.1\r\n\r\n"), Refusal::MethodUnknown);
        assert_eq!(refusal("POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n"), Refusal::Malformed);
        assert_eq!(
            refusal("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Refusal::NotImplemented
        );
        let endless = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(HEAD_MAX_BYTES));
        assert_eq!(refusal(&endless), Refusal::HeadTooLarge);
        // It came in one piece, and is no shorter for that.
        assert_eq!(refusal(&format!("{endless}\r\n\r\n")), Refusal::HeadTooLarge);
    }
}
