// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of auto (Shukla, thesis, 5.2; `docs/auto.md`), as an operator gives them.

use serde::Deserialize;
use tidegate_policy::mechanism::{PATIENCE_S, SYN_US, WAIT_MS};
use tidegate_policy::raw::tg_rules;
use toml::Spanned;

use crate::failure::Result;
use crate::reader::Reader;

/// `auto = { … }`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auto {
    patience_s: Option<Spanned<f64>>,
    wait_ms: Option<Spanned<f64>>,
    syn_us: Option<Spanned<f64>>,
}

/// `auto`: beside the mechanism of that name.
pub fn read(reader: &Reader<'_>, auto: &Option<Spanned<Auto>>, rules: &mut tg_rules) -> Result<()> {
    let Some(auto) = auto else { return Ok(()) };
    if rules.is_auto == 0 {
        return Err(reader.wrong(
            auto.span(),
            "auto has options, but the mechanism is another",
            "write mechanism = \"auto\", or take the options out",
        ));
    }
    let options = auto.get_ref();
    if let Some(patience) = &options.patience_s {
        rules.patience_ms = reader.thousandths("patience_s", patience, PATIENCE_S)?;
    }
    if let Some(wait) = &options.wait_ms {
        rules.wait_us = reader.thousandths("wait_ms", wait, WAIT_MS)?;
    }
    if let Some(syn) = &options.syn_us {
        rules.syn_ns = reader.thousandths("syn_us", syn, SYN_US)?.into();
    }
    Ok(())
}
