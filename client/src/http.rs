// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked over HTTP/1.1, and how much of the reply has come. Bodies are counted, not kept.

mod chunk;
mod reply;

pub use reply::{Progress, Reply};

/// The requests that people may make, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    each: Vec<Request>,
    client_close: Box<[u8]>,
}

/// One request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    bytes: Box<[u8]>,
    last_bytes: Box<[u8]>,
    /// Whether the reply has no body whatever its head says (RFC 9112, section 6.3).
    is_head: bool,
}

impl Request {
    /// GET.
    #[must_use]
    pub fn get(host: &str, path: &str) -> Self {
        Self::new("GET", host, path)
    }

    /// HEAD.
    #[cfg(test)]
    pub(crate) fn head(host: &str, path: &str) -> Self {
        Self::new("HEAD", host, path)
    }

    fn new(method: &str, host: &str, path: &str) -> Self {
        Self {
            bytes: head(method, host, path, ""),
            last_bytes: head(method, host, path, "Connection: close\r\n"),
            is_head: method == "HEAD",
        }
    }

    /// What is sent. It does not ask the server to close: as in a browser, that is the client's
    /// part.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, where the server is asked to close after its reply (RFC 9112, section 9.6).
    #[must_use]
    pub fn last_bytes(&self) -> &[u8] {
        &self.last_bytes
    }

    /// A reply to it that is still to come.
    #[must_use]
    pub fn reply(&self) -> Reply {
        Reply::to(self.is_head)
    }
}

/// Which requests come next, where all attempts of a crowd make them in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    next: u32,
}

impl Turn {
    /// The place of the first of so many requests; the next attempt's begin behind the last. If they
    /// overlapped, a crowd would ask for few places many times, and what a server can do would hang
    /// on which these are.
    pub fn take(&mut self, requests: u16) -> u32 {
        let first = self.next;
        self.next = first.wrapping_add(u32::from(requests));
        first
    }
}

fn head(method: &str, host: &str, path: &str, more: &str) -> Box<[u8]> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tidelab-crowd\r\n{more}\r\n"
    );
    head.into_bytes().into_boxed_slice()
}

impl Requests {
    /// A GET for each path; of `/` if there is none.
    #[must_use]
    pub fn get<'a>(host: &str, paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut each: Vec<Request> =
            paths.into_iter().map(|path| Request::get(host, path)).collect();
        if each.is_empty() {
            each.push(Request::get(host, "/"));
        }
        Self { each, client_close: head("CLIENT_CLOSE", host, "/", "") }
    }

    /// These; `None` if there are none.
    #[cfg(test)]
    pub(crate) fn of(host: &str, each: Vec<Request>) -> Option<Self> {
        let client_close = head("CLIENT_CLOSE", host, "/", "");
        (!each.is_empty()).then_some(Self { each, client_close })
    }

    /// The extension request that says that the client closes, and that wants no reply (Faber et
    /// al., "The TIME-WAIT state in TCP and Its Effect on Busy Servers", section 4.2).
    #[must_use]
    pub fn client_close(&self) -> &[u8] {
        &self.client_close
    }

    /// The request at this place, counted round and round.
    #[must_use]
    pub fn at(&self, place: u32) -> &Request {
        &self.each[place as usize % self.each.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_is_two_attempts_turn() {
        let mut turn = Turn::default();
        assert_eq!([1, 100, 7].map(|requests| turn.take(requests)), [0, 1, 101]);
        turn.next = u32::MAX;
        assert_eq!([2, 1].map(|requests| turn.take(requests)), [u32::MAX, 1]);
    }
}
