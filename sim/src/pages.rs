// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is served, as bytes on the wire.

use tidegate_client::{Requests, specweb99};
use tidegate_scenarios::Page;

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
}

impl Pages {
    /// One page in one packet.
    #[must_use]
    pub fn one_packet() -> Self {
        Self::of(Page::OnePacket, 0)
    }

    /// What a scenario's server has. Each of the SPECweb99-like files is asked for as often as its
    /// share has it, in an order that the seed chooses.
    #[must_use]
    pub fn of(page: Page, seed: u64) -> Self {
        let filling = vec![b'~'; SEGMENT_MAX_BYTES].into_boxed_slice();
        if page == Page::OnePacket {
            let only = Content::new(Page::ONE_PACKET_BYTES, false);
            return Self { each: vec![only], paths: vec!["/".to_owned()], asked: vec![0], filling };
        }
        let files = specweb99::files();
        let mut chance = Chance::of(seed, Entity::Pages);
        let asked = specweb99::order(|| chance.draw());
        let each = files.iter().map(|file| Content::new(file.bytes, true)).collect();
        Self { each, paths: files.into_iter().map(|file| file.path).collect(), asked, filling }
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

    /// So many bytes of it in one segment, from its beginning or from elsewhere.
    #[inline]
    pub(crate) fn bytes(&self, page: u16, begins: bool, length: u16) -> &[u8] {
        let from = if begins { &self.each[usize::from(page)].first } else { &self.filling };
        &from[..usize::from(length)]
    }
}

impl Content {
    fn new(body_bytes: usize, is_file: bool) -> Self {
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nServer: userver\r\nContent-Type: text/html\r\n\
             Content-Length: {body_bytes}\r\n\r\n"
        )
        .into_bytes();
        let length = (bytes.len() + body_bytes) as u32;
        bytes.resize(bytes.len() + body_bytes.min(SEGMENT_MAX_BYTES), b'~');
        bytes.truncate(SEGMENT_MAX_BYTES);
        Self { length, first: bytes.into_boxed_slice(), is_file }
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
