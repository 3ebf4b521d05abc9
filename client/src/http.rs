// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked over HTTP/1.1, and how much of the reply has come. Bodies are counted, not kept.

mod chunk;
mod reply;

pub use reply::{Progress, Reply};

/// The requests that people may make, ready to be sent.
///
/// They do not ask the server to close: as in a browser, that is the client's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    each: Vec<Request>,
}

/// One request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    bytes: Box<[u8]>,
    /// Whether the reply has no body whatever its head says (RFC 9112, section 6.3).
    is_head: bool,
}

impl Request {
    /// GET.
    #[must_use]
    pub fn get(host: &str, path: &str) -> Self {
        Self { bytes: line("GET", host, path), is_head: false }
    }

    /// HEAD.
    #[must_use]
    pub fn head(host: &str, path: &str) -> Self {
        Self { bytes: line("HEAD", host, path), is_head: true }
    }

    /// What is sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A reply to it that is still to come.
    #[must_use]
    pub fn reply(&self) -> Reply {
        Reply::to(self.is_head)
    }
}

fn line(method: &str, host: &str, path: &str) -> Box<[u8]> {
    format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tidelab-crowd\r\n\r\n")
        .into_bytes()
        .into_boxed_slice()
}

impl Requests {
    /// A GET for each path; of `/` if there is none.
    #[must_use]
    pub fn get<'a>(host: &str, paths: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of(paths.into_iter().map(|path| Request::get(host, path)).collect())
            .unwrap_or_else(|| Self { each: vec![Request::get(host, "/")] })
    }

    /// These; `None` if there are none.
    #[must_use]
    pub fn of(each: Vec<Request>) -> Option<Self> {
        (!each.is_empty()).then_some(Self { each })
    }

    /// The request at this place, counted round and round.
    #[must_use]
    pub fn at(&self, place: u32) -> &Request {
        &self.each[place as usize % self.each.len()]
    }
}
