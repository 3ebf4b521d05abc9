// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who speaks first (`include/speaks.h`).

use crate::raw::{self, tg_speaks};

impl tg_speaks {
    /// A client's first data of a connection has come; `answers` says whether it acknowledges something
    /// that the server has said.
    pub fn see(&mut self, answers: bool) {
        // SAFETY: the function reads and writes only through this valid reference.
        unsafe { raw::tg_native_speaks_see(self, answers.into()) }
    }

    /// Whether clients speak first here, as far as has been seen.
    pub fn first(&self) -> bool {
        // SAFETY: the function reads only through this valid reference.
        unsafe { raw::tg_native_speaks_first(self) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known after so many connections whose clients spoke first, and so many of the others.
    fn known_after(clients: u32, servers: u32) -> bool {
        let mut speaks = tg_speaks::default();
        (0..servers).for_each(|_| speaks.see(true));
        (0..clients).for_each(|_| speaks.see(false));
        speaks.first()
    }

    #[test]
    fn clients_speak_first_where_hardly_any_waits_for_the_server() {
        assert!(!known_after(0, 0), "nothing is known");
        assert_eq!([known_after(7, 0), known_after(8, 0)], [false, true]);
        assert_eq!([known_after(63, 2), known_after(64, 2)], [false, true]);
        // Some of a mail server's clients do not wait for its greeting.
        assert!(!known_after(20, 1000));
    }

    /// A port may be another server's from one day to the next.
    #[test]
    fn what_was_seen_long_ago_counts_for_less() {
        let mut speaks = tg_speaks::default();
        (0..1_000_000).for_each(|_| speaks.see(false));
        assert!(speaks.first());
        (0..64).for_each(|_| speaks.see(true));
        assert!(!speaks.first());
        (0..10_000).for_each(|_| speaks.see(false));
        assert!(speaks.first());
    }
}
