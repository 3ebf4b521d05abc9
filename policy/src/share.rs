// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fair share for each network of clients while there is not room for all (`include/share.h`; Stoica,
//! Shenker and Zhang, SIGCOMM 1998).

use crate::raw::{
    self, TG_SHARE_CELLS, TG_SHARE_ROWS, TG_SHARE_WINDOW_SHIFT, tg_judged, tg_key, tg_rules,
    tg_share, tg_share_cell, tg_tuple,
};

/// Bits of a network of IPv4, where a listener is asked for shares and names none: what a customer
/// of a hosting provider has, and what is announced to the Internet at least.
pub const IPV4_BITS: u32 = 24;
/// And of IPv6: what a site has (RFC 6177).
pub const IPV6_BITS: u32 = 56;
/// The most that count: of IPv6 the part that names a network.
pub const IPV6_BITS_MOST: u32 = 64;

/// Cells of the table in which networks are counted.
pub const CELLS: usize = (TG_SHARE_ROWS * TG_SHARE_CELLS) as usize;

impl tg_rules {
    /// Whether networks have shares.
    #[must_use]
    pub fn shares(&self) -> bool {
        self.share_ipv4_bits != 0
    }
}

impl tg_share {
    /// SYNs a second that each network may have now; `None` where there is room for all.
    #[must_use]
    pub fn limit_per_s(&self, now_ns: u64) -> Option<f64> {
        // SAFETY: the function reads only through this valid reference.
        let is_on = unsafe { raw::tg_native_share_is_on(self, now_ns) != 0 };
        let window_s = (1u64 << TG_SHARE_WINDOW_SHIFT) as f64 / 1e9;
        (is_on && self.limit_x256 != 0).then(|| self.limit_x256 as f64 / 256.0 / window_s)
    }
}

/// Max-min fairness: what each may have, so that together those who ask for so much have no more than
/// `all`; whoever asks for less has what it asks for. Where there is enough, the most that is asked.
#[must_use]
pub fn max_min(asked: &[f64], all: f64) -> f64 {
    let mut asked = asked.to_vec();
    asked.sort_by(f64::total_cmp);
    let (mut left, mut sharers) = (all, asked.len() as f64);
    for one in &asked {
        if one * sharers > left {
            return left / sharers;
        }
        left -= one;
        sharers -= 1.0;
    }
    asked.last().copied().unwrap_or_default()
}

/// The cells in which a client's network is counted; `owner` is its listening socket's.
#[must_use]
pub fn cells(key: &tg_key, tuple: &tg_tuple, rules: &tg_rules, owner: u32) -> [u32; 2] {
    // SAFETY: the function reads only through these valid references.
    let hash = unsafe { raw::tg_native_share_hash(key, tuple, rules, owner) };
    // SAFETY: plain values.
    [0, 1].map(|row| unsafe { raw::tg_native_share_cell(hash, row) })
}

/// The shares of one listening socket, with all that is counted for them.
#[derive(Clone, Debug)]
pub struct Shares {
    share: tg_share,
    cells: Vec<tg_share_cell>,
}

impl Default for Shares {
    fn default() -> Self {
        Self { share: tg_share::default(), cells: vec![tg_share_cell::default(); CELLS] }
    }
}

impl Shares {
    /// What a SYN is, `TG_SOURCE_ANY`, `TG_SOURCE_WITHIN` or `TG_SOURCE_BEYOND`; `random` is uniform over
    /// 32 bits.
    pub fn source(
        &mut self,
        rules: &tg_rules,
        key: &tg_key,
        tuple: &tg_tuple,
        random: u32,
        now_ns: u64,
    ) -> u32 {
        let cells = self.cells.as_mut_ptr();
        // SAFETY: the function reads and writes only through these valid references, and `cells` are
        // all that it may name.
        unsafe {
            raw::tg_native_share_ask(&mut self.share, cells, key, tuple, rules, random, now_ns)
        }
    }

    /// A SYN of this source was judged so. Of whom shares do not concern, nothing is counted.
    pub fn end(&mut self, rules: &tg_rules, source: u32, judged: tg_judged, now_ns: u64) {
        // SAFETY: the function reads and writes only through these valid references.
        unsafe { raw::tg_native_share_end(&mut self.share, rules, source, judged, now_ns) }
    }

    /// What is known.
    #[must_use]
    pub fn share(&self) -> &tg_share {
        &self.share
    }
}

#[cfg(test)]
mod tests;
