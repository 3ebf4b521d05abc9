// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notices in refusals, as an operator asks for them (`docs/notices.md`).

use std::time::Duration;

use tidegate_datapath::configuration::Guarded;
use tidegate_policy::notice::{self, COME_BACK, COME_BACK_MOST};
use tidegate_policy::raw::*;
use toml::{Spanned, Value};

use crate::failure::Result;
use crate::reader::Reader;

const FIX: &str = "write notice = true, or notice = { come_back_s = 2 }";

fn come_back(reader: &Reader<'_>, value: &Spanned<Value>, seconds: &Value) -> Result<Duration> {
    let number = match seconds {
        Value::Float(number) => *number,
        Value::Integer(number) => *number as f64,
        other => {
            return Err(reader.wrong(
                value.span(),
                format!("come_back_s = {other} is no number"),
                FIX,
            ));
        }
    };
    let most = COME_BACK_MOST.as_secs_f64();
    if (0.0..=most).contains(&number) {
        return Ok(Duration::from_secs_f64(number));
    }
    Err(reader.wrong(
        value.span(),
        format!("come_back_s = {number} is out of range"),
        format!("give a number from 0 to {most}"),
    ))
}

/// The time to name; `None` where nothing is to be said.
fn asked(reader: &Reader<'_>, value: &Spanned<Value>) -> Result<Option<Duration>> {
    let Some(table) = reader.options("notice", value, &["come_back_s"], FIX)? else {
        return Ok(None);
    };
    table
        .get("come_back_s")
        .map_or(Ok(Some(COME_BACK)), |seconds| come_back(reader, value, seconds).map(Some))
}

/// Whether any RST of this guard is written by us, and not by the kernel.
fn refuses(guarded: &Guarded) -> bool {
    let sheds = guarded.shed.policy != TG_SHED_OFF && guarded.shed.refusal == TG_REFUSE_RESET;
    guarded.rules.syn == TG_SYN_RESET || guarded.rules.needs_cookies() || sheds
}

/// `notice`: what explicit refusals of this listener say.
pub fn read(
    reader: &Reader<'_>,
    value: &Option<Spanned<Value>>,
    guarded: &mut Guarded,
) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let Some(time) = asked(reader, value)? else { return Ok(()) };
    if !refuses(guarded) {
        return Err(reader.wrong(
            value.span(),
            "a notice goes with a RST to the SYN, and this listener sends none",
            "add \"rst-syn\" to the mechanism, or take notice out",
        ));
    }
    guarded.rules.notice = 1;
    guarded.rules.come_back_ticks = notice::ticks(time);
    Ok(())
}
