// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys from files that several hosts share, or random ones: those of our SYN cookies, which
//! change as time passes, and that of persistent dropping, which stays.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

pub use tidegate_datapath::key::random;
use tidegate_policy::raw::{tg_cookie_keys, tg_key};

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::reader;

/// Random keys are changed this often. The key before stays good for the cookies that it
/// made, which live 137 s at most.
const ROTATE_EVERY: Duration = Duration::from_secs(15 * 60);

/// Whether keys that have stood for so long are to be changed. Those of a file are changed by who wrote it.
pub fn are_due(are_random: bool, stood: Duration) -> bool {
    are_random && stood >= ROTATE_EVERY
}

fn key(bytes: [u8; 16]) -> tg_key {
    let (low, high) = bytes.split_at(8);
    tg_key {
        k0: u64::from_le_bytes(low.try_into().expect("eight bytes")),
        k1: u64::from_le_bytes(high.try_into().expect("eight bytes")),
    }
}

/// Two fresh random keys.
pub fn random_pair() -> tg_cookie_keys {
    tg_cookie_keys { current: random(), previous: random() }
}

/// The next pair: a fresh key, and the one that was current.
pub fn rotated(keys: &tg_cookie_keys) -> tg_cookie_keys {
    tg_cookie_keys { current: random(), previous: keys.current }
}

fn parse_line(line: &str) -> Option<tg_key> {
    let mut bytes = [0; 16];
    // from_str_radix() takes a sign, too.
    if line.len() != 32 || !line.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(line.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key(bytes))
}

/// A file's text, and whether every user of the host may read or write it.
fn text(path: &Path) -> io::Result<(String, bool)> {
    let mut file = File::open(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((text, file.metadata()?.permissions().mode() & 0o006 != 0))
}

/// Every line that is neither empty nor a comment, as a key. A file may begin with a byte-order mark, as those that
/// some editors write.
fn parse(text: &str, path: &Path, setting: &str) -> Result<Vec<tg_key>> {
    let mut keys = Vec::new();
    for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        keys.push(parse_line(line).ok_or_else(|| Failure::Configuration {
            file: path.to_owned(),
            line: at + 1,
            what: format!("this is no {}", setting.trim_end_matches('s').replace('_', " ")),
            fix: "write 32 hexadecimal digits, as `openssl rand -hex 16` prints".to_owned(),
        })?);
    }
    Ok(keys)
}

/// The keys of a file, and whether it is open to every user.
fn lines(path: &Path, setting: &str) -> Result<(Vec<tg_key>, bool)> {
    let fix = || format!("make it with `umask 077; openssl rand -hex 16`, or leave {setting} out");
    let (text, is_open) = text(path).map_err(|source| reader::unreadable(path, source, fix))?;
    Ok((parse(&text, path, setting)?, is_open))
}

/// Keys from a file: a line of 32 hexadecimal digits each, the first makes cookies, a
/// second is only taken. To rotate on many hosts: first add the new key as the second
/// line everywhere, then swap the lines.
fn read_cookies(path: &Path) -> Result<(tg_cookie_keys, bool)> {
    let (keys, is_open) = lines(path, "cookie_keys")?;
    match keys[..] {
        [current] => Ok((tg_cookie_keys { current, previous: current }, is_open)),
        [current, previous] => Ok((tg_cookie_keys { current, previous }, is_open)),
        _ => Err(Failure::Configuration {
            file: path.to_owned(),
            line: 1,
            what: format!("{} cookie keys", keys.len()),
            fix: "write one line, or two while you rotate".to_owned(),
        }),
    }
}

/// The key of persistent dropping from a file: one such line.
fn read_shed(path: &Path) -> Result<(tg_key, bool)> {
    let (keys, is_open) = lines(path, "shed_key")?;
    match keys[..] {
        [key] => Ok((key, is_open)),
        _ => Err(Failure::Configuration {
            file: path.to_owned(),
            line: 1,
            what: format!("{} keys of persistent dropping", keys.len()),
            fix: "write one line".to_owned(),
        }),
    }
}

/// The keys that a configuration's files hold; those of which it names none are ours to choose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given {
    /// Those of our SYN cookies.
    pub cookies: Option<tg_cookie_keys>,
    /// That of persistent dropping.
    pub shed: Option<tg_key>,
    cookies_are_open: bool,
    shed_is_open: bool,
}

impl Given {
    /// Reads both files.
    pub fn read(cookie_keys: Option<&Path>, shed_key: Option<&Path>) -> Result<Self> {
        let cookies = cookie_keys.map(read_cookies).transpose()?;
        let shed = shed_key.map(read_shed).transpose()?;
        Ok(Given {
            cookies: cookies.map(|(keys, _)| keys),
            shed: shed.map(|(key, _)| key),
            cookies_are_open: cookies.is_some_and(|(_, is_open)| is_open),
            shed_is_open: shed.is_some_and(|(_, is_open)| is_open),
        })
    }
}

/// What is told of files that are open to every user. They are taken all the same: what is mounted into a container
/// has a mode that its operator may not have chosen.
pub fn open(config: &Config) -> impl Iterator<Item = Failure> {
    let keys = &config.keys;
    let cookies = config.cookie_keys.as_ref().filter(|_| keys.cookies_are_open);
    let shed = config.shed_key.as_ref().filter(|_| keys.shed_is_open);
    let cookies = cookies.map(|path| (path, "connect from any address"));
    let shed = shed.map(|path| (path, "choose connections that are not shed"));
    cookies.into_iter().chain(shed).map(|(path, can)| {
        let path = path.display();
        Failure::argument(
            format!("{path} is open to every user of this host, who can then {can}"),
            format!("chmod o= {path} (of a Kubernetes Secret, defaultMode: 0400)"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_key_in_the_order_of_its_bytes() {
        let key = parse_line("000102030405060708090a0b0c0d0e0f").unwrap();
        assert_eq!((key.k0, key.k1), (0x0706050403020100, 0x0f0e0d0c0b0a0908));
        for bad in [
            "",
            "00",
            "zz0102030405060708090a0b0c0d0e0f",
            "é00102030405060708090a0b0c0d0e0",
            "+00102030405060708090a0b0c0d0e0f",
        ] {
            assert!(parse_line(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_of_keys_may_begin_with_a_byte_order_mark_and_have_comments() {
        let line = "000102030405060708090a0b0c0d0e0f";
        let of = |text: &str| parse(text, Path::new("keys"), "cookie_keys").map(|keys| keys.len());
        for (text, count) in [
            (format!("\u{feff}{line}\r\n{line}\r\n"), 2),
            (format!("\u{feff}# of all hosts\n\n{line}"), 1),
            ("\u{feff}".to_owned(), 0),
        ] {
            assert_eq!(of(&text).unwrap(), count, "{text:?}");
        }
        // There and nowhere else.
        for text in [format!("{line}\n\u{feff}{line}"), format!("\u{feff}\u{feff}{line}")] {
            assert!(of(&text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn random_keys_are_changed_every_quarter_of_an_hour_and_those_of_a_file_never() {
        let are_due = |are_random, stood_s| are_due(are_random, Duration::from_secs(stood_s));
        assert_eq!([0, 899, 900, 901].map(|s| are_due(true, s)), [false, false, true, true]);
        assert_eq!([0, 900, 1 << 40].map(|s| are_due(false, s)), [false; 3]);
    }

    #[test]
    fn a_rotation_keeps_the_key_before() {
        let before = random_pair();
        let after = rotated(&before);
        assert_eq!(after.previous, before.current);
        assert_ne!(after.current, before.current);
    }
}
