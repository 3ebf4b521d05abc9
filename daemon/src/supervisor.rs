// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whoever started a daemon and looks after it: systemd, with `Type=notify`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sd_notify::NotifyState;

use crate::failure::{Failure, tell};

/// Says that the daemon stands, where it was asked to (`NOTIFY_SOCKET`, sd_notify(3)). It stands whether that
/// is heard or not.
pub fn stands() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(source) = say(&socket) {
        let fix = "have NOTIFY_SOCKET name a socket that hears that this stands, or unset it";
        tell(&Failure::File { path: socket.into(), source, fix: fix.to_owned() }.to_string());
    }
}

/// sd-notify 0.5 takes a name in the abstract namespace, which an `@` begins, for a path.
fn say(socket: &OsStr) -> io::Result<()> {
    let Some(name) = socket.as_bytes().strip_prefix(b"@") else {
        return sd_notify::notify(&[NotifyState::Ready]);
    };
    let said = format!("{}\n", NotifyState::Ready);
    let address = SocketAddr::from_abstract_name(name)?;
    UnixDatagram::unbound()?.send_to_addr(said.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hears_in_the_abstract_namespace_is_told() {
        let name = format!("tidegate-supervisor-{}", std::process::id());
        let socket = format!("@{name}");
        let told = || say(OsStr::new(&socket));
        assert_eq!(told().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let hears = UnixDatagram::bind_addr(&address).unwrap();
        told().unwrap();
        let mut said = [0; 64];
        let length = hears.recv(&mut said).unwrap();
        assert_eq!(&said[..length], b"READY=1\n");
    }
}
