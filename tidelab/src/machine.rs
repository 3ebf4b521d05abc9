// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machines that can be simulated, by their names.

use std::path::Path;

use tidegate_sim::{Machine, Profile, SimError};

const NAMED: [(&str, Machine); 4] = [
    ("today", Machine::today()),
    ("xeon", Machine::xeon()),
    ("bsd", Machine { profile: Profile::Bsd, ..Machine::xeon() }),
    ("windows", Machine { profile: Profile::Windows, ..Machine::xeon() }),
];

/// The machine of this name, or in this file.
pub(crate) fn named(given: &str) -> Result<Machine, SimError> {
    match NAMED.iter().find(|(name, _)| *name == given) {
        Some((_, machine)) => Ok(*machine),
        None => Machine::read(Path::new(given)),
    }
}

/// The name of a machine from its text, if it has one.
pub(crate) fn name(text: &str) -> Option<&'static str> {
    let machine = Machine::from_toml(text).ok()?;
    NAMED.iter().find(|(_, known)| *known == machine).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_again_by_its_text() {
        for (known, machine) in NAMED {
            assert_eq!(named(known).unwrap(), machine);
            assert_eq!(name(&machine.to_toml().unwrap()), Some(known));
        }
        let another = Machine { cores: 7, ..Machine::today() };
        assert_eq!(name(&another.to_toml().unwrap()), None);
        assert_eq!(name("none"), None);
    }
}
