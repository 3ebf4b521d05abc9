// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a guard decides, by the names that an operator gives.

use tidegate_datapath::raw::*;
use tidegate_policy::mechanism;
use tidegate_policy::raw::*;

use crate::setting::{Written, Wrong};

/// The hook of a name, where it can carry out the rules; or what is wrong, and the fix.
pub fn parse(written: Written, name: &str, rules: &tg_rules) -> Result<u32, Wrong> {
    let hook = match name {
        "auto" => TG_HOOK_AUTO,
        "driver" => TG_HOOK_DRIVER,
        "ip" => TG_HOOK_IP,
        "tcp" => TG_HOOK_TCP,
        other => {
            return Err((
                format!("{} is unknown", written.setting("hook", other)),
                "write \"auto\", \"driver\", \"ip\" or \"tcp\"".to_owned(),
            ));
        }
    };
    if hook != TG_HOOK_TCP {
        return Ok(hook);
    }
    let wrong = |what: &str, fix: &str| {
        let auto = written.setting("hook", "auto");
        let what = format!("{what} cannot be carried out at the tcp hook, which can only drop");
        Err((what, format!("use {auto}, or {fix}")))
    };
    if rules.answers_syns() {
        let name = mechanism::name(rules);
        return wrong(&format!("\"{name}\""), "a mechanism such as \"abort early-syn-drop\"");
    }
    if rules.cookie_when_reserved != 0 {
        return wrong("when_exhausted = \"cookie\"", "take it out");
    }
    Ok(hook)
}

/// The name of a hook.
pub fn name(hook: u32) -> &'static str {
    match hook {
        TG_HOOK_DRIVER => "driver",
        TG_HOOK_IP => "ip",
        TG_HOOK_TCP => "tcp",
        _ => "auto",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_hook_is_told_as_it_was_written() {
        let rules = |text| mechanism::parse(text).unwrap();
        let told = |written, name, mechanism| {
            let (what, fix) = parse(written, name, &rules(mechanism)).unwrap_err();
            format!("{what}; {fix}")
        };
        let names = "write \"auto\", \"driver\", \"ip\" or \"tcp\"";
        assert_eq!(
            told(Written::InFile, "xdp", "abort"),
            format!("hook = \"xdp\" is unknown; {names}")
        );
        assert_eq!(
            told(Written::AsOption, "xdp", "abort"),
            format!("--hook xdp is unknown; {names}")
        );
        let fix = told(Written::AsOption, "tcp", "rst-syn");
        assert!(fix.contains("; use --hook auto, or a mechanism"), "{fix}");
        let cookies = tg_rules { cookie_when_reserved: 1, ..rules("reserv") };
        let (what, fix) = parse(Written::InFile, "tcp", &cookies).unwrap_err();
        assert!(what.starts_with("when_exhausted = \"cookie\" cannot be carried out"), "{what}");
        assert_eq!(fix, "use hook = \"auto\", or take it out");
        assert!(parse(Written::InFile, "tcp", &rules("reserv")).is_ok());
    }
}
