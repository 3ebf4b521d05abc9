// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random, cut and flipped requests: everyone gets a reply or an end, and the server goes on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use fastrand::Rng;
use socket2::SockRef;

use crate::http::CLOSING;
use crate::running::Way;

const SEED: u64 = 7;
/// A flipped bit may ask for gigabytes.
const REPLY_MAX_BYTES: u64 = 1 << 20;
const REQUESTS: [&str; 8] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /bytes/300 HTTP/1.1\r\nConnection: close\r\n\r\n",
    "HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\nhello world",
    "GET /work/5 HTTP/1.1\r\nIf-None-Match: \"a\", \"b\"\r\n\r\n",
    "GET / HTTP/1.1\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
    "GET http://a/b?c=d HTTP/1.1\r\nConnection: keep-alive, foo\r\nA: b\r\n\r\n",
    "PUT /a%20b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
];

pub fn nonsense_harms_nobody(way: Way) {
    fuzz(way, 300);
}

/// About ten minutes of it.
pub fn much_nonsense_harms_nobody(way: Way) {
    fuzz(way, 300_000);
}

fn fuzz(way: Way, clients: u64) {
    let server = way.start(|settings| settings.patience = Duration::from_millis(16));
    let mut chance = Rng::with_seed(SEED);
    for client in 0..clients {
        let request = mangled(&mut chance);
        let mut stream = server.connect();
        // The server may refuse before it has read all.
        let _ = stream.write_all(&request);
        match chance.u8(0..4) {
            0 => {
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                continue;
            }
            1 => stream.shutdown(Shutdown::Write).unwrap_or(()),
            _ => {}
        }
        check_reply(&stream, &format!("client {client}: {}", request.escape_ascii()));
    }
    assert!(server.ask(CLOSING).starts_with("HTTP/1.1 200 "));
    assert_eq!(server.stop().accepted, clients + 1);
}

/// Whatever comes is a reply, or several; what comes last is an end.
fn check_reply(stream: &TcpStream, said: &str) {
    let mut reply = Vec::new();
    // A reset is an end too.
    let ended = stream.take(REPLY_MAX_BYTES).read_to_end(&mut reply);
    if let Err(error) = ended {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{said}");
    }
    if !reply.is_empty() {
        let status = reply.get(..12).map(<[u8]>::to_vec).unwrap_or_default();
        let known = ["200", "304", "400", "405", "408", "431", "501"];
        assert!(
            known.iter().any(|known| status == format!("HTTP/1.1 {known}").into_bytes()),
            "{said}: {}",
            status.escape_ascii()
        );
    }
}

fn mangled(chance: &mut Rng) -> Vec<u8> {
    let mut bytes = REQUESTS[chance.usize(0..REQUESTS.len())].as_bytes().to_vec();
    for _ in 0..chance.u8(1..4) {
        let place = chance.usize(0..=bytes.len());
        match chance.u8(0..6) {
            0 => bytes.truncate(place),
            1 => bytes = (0..chance.usize(0..400)).map(|_| chance.u8(..)).collect(),
            2 => {
                let slice = bytes[place..].to_vec();
                bytes.extend(slice);
            }
            3 => {
                let long = vec![b'A' + chance.u8(0..26); chance.usize(0..40_000)];
                bytes.splice(place..place, long);
            }
            _ => {
                for _ in 0..chance.u8(1..8) {
                    let place = chance.usize(0..=bytes.len());
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte ^= 1 << chance.u8(0..8);
                    }
                }
            }
        }
    }
    bytes
}
