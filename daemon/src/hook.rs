// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a guard decides, by the names that an operator gives.

use tidegate_datapath::raw::*;
use tidegate_policy::mechanism;
use tidegate_policy::raw::*;

/// The hook of a name, where it can carry out the rules; or what is wrong, and the fix.
pub fn parse(name: &str, rules: &tg_rules) -> Result<u32, (String, String)> {
    let hook = match name {
        "auto" => TG_HOOK_AUTO,
        "driver" => TG_HOOK_DRIVER,
        "ip" => TG_HOOK_IP,
        "tcp" => TG_HOOK_TCP,
        other => {
            return Err((
                format!("hook = \"{other}\" is unknown"),
                "write \"auto\", \"driver\", \"ip\" or \"tcp\"".to_owned(),
            ));
        }
    };
    let answers = rules.syn == TG_SYN_RESET || rules.needs_cookies();
    if hook == TG_HOOK_TCP && answers {
        return Err((
            format!(
                "\"{}\" cannot be carried out at the tcp hook, which can only drop",
                mechanism::name(rules)
            ),
            "use hook = \"auto\", or a mechanism such as \"abort early-syn-drop\"".to_owned(),
        ));
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
