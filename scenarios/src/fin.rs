// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a client's FIN does on a curve (Shukla 4.2.1), in the words of `tidegate`'s configuration.

use serde::{Deserialize, Serialize};
use tidegate_policy::names::FIN_RULES;
use tidegate_policy::raw::{TG_HALF_CLOSE, TG_RST_FIN, TG_RST_FIN_STRICT};

/// What becomes of a connection whose client closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fin {
    /// Its side is closed, as TCP has it.
    #[default]
    #[serde(rename = "half-close")]
    HalfClose,
    /// It ends.
    #[serde(rename = "rst-fin")]
    Ends,
    /// It ends where nothing can be lost.
    #[serde(rename = "rst-fin strict")]
    EndsStrictly,
}

impl Fin {
    /// One of `TG_HALF_CLOSE`, `TG_RST_FIN` and `TG_RST_FIN_STRICT`.
    #[must_use]
    pub fn rule(self) -> u32 {
        match self {
            Self::HalfClose => TG_HALF_CLOSE,
            Self::Ends => TG_RST_FIN,
            Self::EndsStrictly => TG_RST_FIN_STRICT,
        }
    }

    /// As scenarios spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        FIN_RULES[self.rule() as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_spelled_as_in_the_configuration() {
        #[derive(Deserialize)]
        struct Line {
            fin: Fin,
        }
        for fin in [Fin::HalfClose, Fin::Ends, Fin::EndsStrictly] {
            let line: Line = toml::from_str(&format!("fin = \"{}\"", fin.name())).unwrap();
            assert_eq!(line.fin, fin);
        }
    }
}
