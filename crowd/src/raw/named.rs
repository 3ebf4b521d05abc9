// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TW-Negotiate on the wire: the option's address, and the end that it names (Faber, section 3).

use std::net::{IpAddr, SocketAddr};

use tidegate_client::segment::OPTIONS_MAX_BYTES;
use tidegate_policy::raw::{TG_TW_KIND, tg_tuple};
use tidegate_policy::time_wait::{self, End};

/// The connection's addresses, which are all that the option knows of it.
fn tuple(client: IpAddr, server: IpAddr) -> tg_tuple {
    tg_tuple::between(SocketAddr::new(client, 0), SocketAddr::new(server, 0))
}

/// Writes the option behind others and says how long they are together. Where there is no room for
/// it, it is left out.
pub(super) fn append(
    named: Option<End>,
    (client, server): (IpAddr, IpAddr),
    options: &mut [u8; OPTIONS_MAX_BYTES],
    length: usize,
) -> usize {
    if named.is_none() {
        return length;
    }
    let bytes = time_wait::write(&time_wait::name(&tuple(client, server), named));
    match options.get_mut(length..length + bytes.len()) {
        Some(place) => {
            place.copy_from_slice(&bytes);
            length + bytes.len()
        }
        None => length,
    }
}

/// The end that options name, if they do.
pub(super) fn find(mut options: &[u8], client: IpAddr, server: IpAddr) -> Option<End> {
    loop {
        match *options {
            [1, ..] => options = &options[1..],
            [kind, length, ..] if kind != 0 && length >= 2 => {
                let (option, rest) = options.split_at_checked(usize::from(length))?;
                if u32::from(kind) == TG_TW_KIND {
                    return time_wait::named(&tuple(client, server), &time_wait::read(option));
                }
                options = rest;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_that_is_written_is_the_one_that_is_read() {
        for (client, server, bytes) in [("10.0.0.2", "10.0.0.1", 8), ("fd00::2", "fd00::1", 20)] {
            let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
            for named in [End::Client, End::Server] {
                let mut options = [1; OPTIONS_MAX_BYTES];
                let length = append(Some(named), (client, server), &mut options, 20);
                assert_eq!(length, 20 + bytes);
                assert_eq!(find(&options[..length], client, server), Some(named));
                assert_eq!(find(&options[..length], client, client), None, "it names no one");
                assert_eq!(append(Some(named), (client, server), &mut options, 36), 36);
            }
            assert_eq!(append(None, (client, server), &mut [0; OPTIONS_MAX_BYTES], 12), 12);
        }
        let nobody = [[3, 3, 7, 0], [253, 4, 9, 9], [253, 9, 0, 0], [2, 0, 0, 0]];
        let (client, server) = ("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap());
        for options in nobody {
            assert_eq!(find(&options, client, server), None, "{options:?}");
        }
    }
}
