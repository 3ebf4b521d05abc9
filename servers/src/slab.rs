// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections held, by token.

use crate::connection::Connection;

/// Connections by token. A token is never used twice, so a late event finds nobody.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    places: Vec<(u32, Option<Connection>)>,
    free: Vec<u32>,
    /// How many there are.
    pub held: usize,
}

impl Slab {
    pub(crate) fn insert(&mut self, connection: Connection) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).expect("fewer descriptors than 2^32")
        });
        self.held += 1;
        let place = &mut self.places[index as usize];
        place.0 = place.0.wrapping_add(1) & 0x7fff_ffff;
        place.1 = Some(connection);
        u64::from(place.0) << 32 | u64::from(index)
    }

    pub(crate) fn get(&mut self, token: u64) -> Option<&mut Connection> {
        let (generation, index) = ((token >> 32) as u32, token as u32 as usize);
        match self.places.get_mut(index) {
            Some((current, connection)) if *current == generation => connection.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<Connection> {
        let (generation, index) = ((token >> 32) as u32, token as u32);
        let place = self.places.get_mut(index as usize)?;
        if place.0 != generation {
            return None;
        }
        let connection = place.1.take()?;
        self.free.push(index);
        self.held -= 1;
        Some(connection)
    }

    /// Shows every connection with its token.
    pub(crate) fn for_each(&mut self, mut look: impl FnMut(u64, &mut Connection)) {
        for (index, (generation, connection)) in self.places.iter_mut().enumerate() {
            if let Some(connection) = connection {
                look(u64::from(*generation) << 32 | index as u64, connection);
            }
        }
    }
}
