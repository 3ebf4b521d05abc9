// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks as the programs look them up: maps by the longest prefix, which hold those of both
//! configurations.

use libbpf_rs::{MapCore, MapFlags};

use crate::address;
use crate::error::{Error, Result, map_error};
use crate::network::Network;
use crate::plain::{Plain, bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::*;

/// One such map.
pub(crate) struct Networks {
    /// Its name.
    pub map: &'static str,
    /// What is in it, for what is told of too many.
    pub what: &'static str,
    /// The most that one configuration may have.
    pub most: usize,
    /// The bit of an owner at which the configuration's number begins, 0 or 1.
    pub config_bit: u32,
    /// The bit of an owner that says IPv6.
    pub ipv6_bit: u32,
}

/// A network's key, of an owner whose bit `ipv6_bit` says IPv6.
pub(crate) fn key_of(network: &Network, ipv6_bit: u32, owner: u32) -> tg_network {
    let (kind, addr) = address::words(Some(network.address));
    tg_network {
        prefix_bits: TG_NETWORK_OWNER_BITS + u32::from(network.bits),
        owner: u32::from(kind == 6) << ipv6_bit | owner,
        addr,
    }
}

impl Networks {
    /// A network's key; `whose` is what the owner's lower bits say.
    pub fn key(&self, config: u32, whose: u32, network: &Network) -> tg_network {
        key_of(network, self.ipv6_bit, config << self.config_bit | whose)
    }

    fn keys_of(&self, programs: &Programs, config: u32) -> Vec<tg_network> {
        let keys = programs.map(self.map).keys().map(|bytes| from_bytes(&bytes));
        keys.filter(|key: &tg_network| key.owner >> self.config_bit == config).collect()
    }

    fn clear(&self, programs: &Programs, config: u32) -> Result<()> {
        let map = programs.map(self.map);
        self.keys_of(programs, config)
            .iter()
            .try_for_each(|key| map.delete(bytes_of(key)))
            .map_err(map_error(self.map))
    }

    /// Makes the networks of a configuration that is not in force yet be these, each with whose it
    /// is and its value. Those that it had when it was last are taken out.
    pub fn write<V: Plain>(
        &self,
        programs: &Programs,
        config: u32,
        wanted: impl ExactSizeIterator<Item = (u32, Network, V)>,
    ) -> Result<()> {
        let asked = wanted.len();
        if asked > self.most {
            return Err(Error::Limit { what: self.what, asked, limit: self.most });
        }
        self.clear(programs, config)?;
        for (whose, network, value) in wanted {
            let key = self.key(config, whose, &network);
            self.put(programs, &key, bytes_of(&value))?;
        }
        Ok(())
    }

    /// Gives the networks of configuration `from` to the other one, before that takes its place.
    pub fn copy(&self, programs: &Programs, from: u32) -> Result<()> {
        self.clear(programs, from ^ 1)?;
        let map = programs.map(self.map);
        for key in self.keys_of(programs, from) {
            let value = map.lookup(bytes_of(&key), MapFlags::ANY).map_err(map_error(self.map))?;
            let Some(value) = value else { continue };
            let other = tg_network { owner: key.owner ^ 1 << self.config_bit, ..key };
            self.put(programs, &other, &value)?;
        }
        Ok(())
    }

    fn put(&self, programs: &Programs, key: &tg_network, value: &[u8]) -> Result<()> {
        let map = programs.map(self.map);
        map.update(bytes_of(key), value, MapFlags::ANY).map_err(map_error(self.map))
    }
}
