// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Socket options, most of which are an int.

use std::io;
use std::os::fd::AsRawFd;

use nix::libc;

/// Sets an option of a socket, as `setsockopt()` has it.
///
/// # Errors
/// The kernel's.
pub fn set_option<T: Copy>(
    socket: &impl AsRawFd,
    level: i32,
    option: i32,
    value: T,
) -> io::Result<()> {
    let bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: an open socket, and a value of the length that is told.
    let done = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, bytes)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An option of a socket that is an int, as `getsockopt()` has it.
///
/// # Errors
/// The kernel's.
pub fn option_of(socket: &impl AsRawFd, level: i32, option: i32) -> io::Result<i32> {
    let (mut value, mut bytes) = (0, size_of::<i32>() as libc::socklen_t);
    // SAFETY: an open socket, and an int with its length.
    let done = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, value, &raw mut bytes)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
