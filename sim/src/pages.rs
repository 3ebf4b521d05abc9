// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is served, as bytes on the wire.

use tidegate_client::Requests;
use tidegate_scenarios::{Asked, Page, Server};

use crate::chance::{Chance, Entity};

/// The most data that a segment carries here.
const SEGMENT_MAX_BYTES: usize = 1460;

/// The pages, and which of them each request asks for, round and round.
#[derive(Clone, Debug)]
pub struct Pages {
    each: Vec<Content>,
    paths: Vec<String>,
    /// Places in `each`.
    asked: Vec<u16>,
    /// What follows the first segment of any of them.
    filling: Box<[u8]>,
}

/// A reply.
#[derive(Clone, Debug)]
struct Content {
    /// Head and body, in bytes.
    length: u32,
    /// What the first segment carries.
    first: Box<[u8]>,
    /// From a file, not from memory.
    is_file: bool,
    /// What computing it takes, in ns.
    computed_ns: u64,
}

impl Pages {
    /// One page in one packet.
    #[must_use]
    pub fn one_packet() -> Self {
        Self::of(Page::OnePacket, 0)
    }

    /// Those of a scenario in which nothing is computed.
    #[must_use]
    pub fn of(page: Page, seed: u64) -> Self {
        Self::served_by(&Server { page, ..Server::default() }, 0, seed)
    }

    /// What a scenario's server has, where a µs of computing takes so many ns. Each page is asked for as often as
    /// its share has it, in an order that the seed chooses.
    #[must_use]
    pub fn served_by(server: &Server, computed_us_ns: u64, seed: u64) -> Self {
        let filling = vec![b'~'; SEGMENT_MAX_BYTES].into_boxed_slice();
        let pages = server.pages();
        let mut chance = Chance::of(seed, Entity::Pages);
        let asked = server.order(|| chance.draw());
        let each = pages.iter().map(|page| Content::of(page, computed_us_ns)).collect();
        Self { each, paths: pages.into_iter().map(|page| page.path).collect(), asked, filling }
    }

    /// The requests, for [`tidegate_client::Person`].
    #[must_use]
    pub fn requests(&self, host: &str) -> Requests {
        Requests::get(host, self.asked.iter().map(|place| self.paths[usize::from(*place)].as_str()))
    }

    /// Which page the request at this place asks for.
    #[inline]
    pub(crate) fn asked(&self, request: u32) -> u16 {
        self.asked[request as usize % self.asked.len()]
    }

    /// How long it is, head and body, in bytes.
    #[inline]
    pub(crate) fn length(&self, page: u16) -> u32 {
        self.each[usize::from(page)].length
    }

    pub(crate) fn is_file(&self, page: u16) -> bool {
        self.each[usize::from(page)].is_file
    }

    /// What computing it takes, in ns.
    pub(crate) fn computed_ns(&self, page: u16) -> u64 {
        self.each[usize::from(page)].computed_ns
    }

    /// So many bytes of it in one segment, from its beginning or from elsewhere.
    #[inline]
    pub(crate) fn bytes(&self, page: u16, begins: bool, length: u16) -> &[u8] {
        let from = if begins { &self.each[usize::from(page)].first } else { &self.filling };
        &from[..usize::from(length)]
    }
}

impl Content {
    fn of(page: &Asked, computed_us_ns: u64) -> Self {
        let Asked { body_bytes, is_file, computed_us, .. } = *page;
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nServer: userver\r\nContent-Type: text/html\r\n\
             Content-Length: {body_bytes}\r\n\r\n"
        )
        .into_bytes();
        let length = (bytes.len() + body_bytes) as u32;
        bytes.resize(bytes.len() + body_bytes.min(SEGMENT_MAX_BYTES), b'~');
        bytes.truncate(SEGMENT_MAX_BYTES);
        Self {
            length,
            first: bytes.into_boxed_slice(),
            is_file,
            computed_ns: computed_us * computed_us_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_head_and_so_many_bytes() {
        let pages = Pages::of(Page::Specweb99, 1);
        for page in 0..36 {
            let first = pages.bytes(page, true, pages.length(page).min(1448) as u16);
            let text = String::from_utf8(first.to_vec()).unwrap();
            let (head, _) = text.split_once("\r\n\r\n").unwrap();
            let length: u32 = head.rsplit(' ').next().unwrap().parse().unwrap();
            assert_eq!(pages.length(page), head.len() as u32 + 4 + length);
        }
        assert!(Pages::one_packet().length(0) <= 1448);
    }
}
