// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wrong command line, told in one line: what is wrong, and the fix.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::{Cli, agent, size};

/// What options want whose values are more than text: what a wrong value is not, and the fix.
const WANTED: [(&str, &str, &str); 5] = [
    ("--port", "port", "give a number from 1 to 65535"),
    ("--address", "IP address", "write one like 192.0.2.1 or 2001:db8::1, or leave it out"),
    ("--listen", "address with a port", "write one like 127.0.0.1:9818 or [::1]:9818"),
    ("--every", "time between looks", "give whole seconds from 1 to 60"),
    ("--for", "time to watch", "give whole seconds from 1 to 86400"),
];

/// Options that take several names as one argument.
const OF_NAMES: [&str; 2] = ["--mechanism", "--fin"];

fn context(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        ContextValue::Strings(texts) => texts.first().map(String::as_str),
        _ => None,
    }
}

/// The option of `--port <PORT>`.
fn option(error: &Error, kind: ContextKind) -> Option<&str> {
    context(error, kind)?.split_whitespace().next()
}

/// A value that an option does not take.
fn no_value(error: &Error) -> Option<String> {
    let option = option(error, ContextKind::InvalidArg)?;
    let value = context(error, ContextKind::InvalidValue)?;
    let fixed = WANTED.iter().find(|(known, ..)| *known == option);
    let (what, fix) = match fixed {
        Some((_, what, fix)) => (*what, (*fix).to_owned()),
        None => ("number", size::wanted(option).or_else(|| agent::wanted(option))?),
    };
    Some(format!("{option} {value} is no {what}; {fix}"))
}

/// Two options that exclude each other, or one that is given twice.
fn conflict(error: &Error) -> Option<String> {
    let one = option(error, ContextKind::InvalidArg)?;
    let other = option(error, ContextKind::PriorArg)?;
    if one == other {
        return Some(format!("{one} is given twice; give it once"));
    }
    Some(format!("{one} does not go with {other}; leave one of the two out"))
}

/// Names that a shell has taken apart, since they stand without quotes.
fn unquoted(error: &Error, words: &[String]) -> Option<String> {
    let stray = context(error, ContextKind::InvalidArg)?;
    OF_NAMES.iter().find_map(|option| {
        let is_it = |word: &String| word == option || word.starts_with(&format!("{option}="));
        let at = words.iter().position(is_it)?;
        let first = words[at].split_once('=').map(|(_, name)| name);
        let behind = words[at + 1..].iter().map(String::as_str);
        let behind = behind.take_while(|word| !word.starts_with('-'));
        let names: Vec<&str> = first.into_iter().chain(behind).collect();
        names.contains(&stray).then(|| {
            let names = names.join(" ");
            format!("{stray} stands alone; quote the names: {option} \"{names}\"")
        })
    })
}

/// clap's answer in one line. `words` are those that were typed behind the program's name.
pub fn one_line(error: &Error, words: &[String]) -> String {
    let ours = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Some(format!("no command is given; give one of {}", commands().join(", ")))
        }
        ErrorKind::ValueValidation => no_value(error),
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::UnknownArgument => unquoted(error, words),
        _ => None,
    };
    ours.unwrap_or_else(|| clap_s(error, words))
}

fn commands() -> Vec<String> {
    Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// What clap says without its usage, and what it takes for the fix.
fn clap_s(error: &Error, words: &[String]) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tip = lines.clone().find_map(|line| line.strip_prefix("tip: "));
    let what: Vec<&str> = lines
        .by_ref()
        .take_while(|line| !["Usage:", "tip:", "For more"].iter().any(|s| line.starts_with(s)))
        .collect();
    let what = what.join(" ");
    let help = match words.first().filter(|word| commands().contains(word)) {
        Some(command) => format!("`tidegate {command} --help` tells what there is"),
        None => "`tidegate --help` tells what there is".to_owned(),
    };
    format!("{}; {}", what.trim_start_matches("error: "), tip.unwrap_or(&help))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn told(words: &[&str]) -> String {
        let line = ["tidegate"].iter().chain(words);
        let error = Cli::try_parse_from(line).err().unwrap_or_else(|| panic!("{words:?} is right"));
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        one_line(&error, &words)
    }

    fn typed(line: &str) -> String {
        told(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn what_is_missing_or_unknown_points_to_the_help_that_has_it() {
        assert_eq!(
            typed(""),
            "no command is given; give one of check, run, status, top, metrics, explain, size, \
             agent, stop"
        );
        for (line, help) in [
            ("run --frobnicate", "`tidegate run --help` tells what there is"),
            ("size", "`tidegate size --help` tells what there is"),
            ("--frobnicate", "`tidegate --help` tells what there is"),
            ("frobnicate", "`tidegate --help` tells what there is"),
            ("run --adress ::1", "a similar argument exists: '--address'"),
        ] {
            assert!(typed(line).ends_with(&format!("; {help}")), "{}", typed(line));
        }
    }

    /// Whatever takes more than text says what it wants: the next option, too.
    #[test]
    fn every_option_says_what_it_is_for_where_its_value_is_none() {
        let mut checked = 0;
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments().filter(|a| a.get_action().takes_values()) {
                let name = argument.get_long().expect("an option");
                let words = [command.get_name(), &format!("--{name}"), "?"];
                let line = ["tidegate"].iter().chain(&words);
                let Err(error) = Cli::try_parse_from(line) else { continue };
                if error.kind() == ErrorKind::ValueValidation {
                    let told = told(&words);
                    let begins = format!("--{name} ? is no ");
                    assert!(told.starts_with(&begins) && told.contains("; "), "{told}");
                    checked += 1;
                }
            }
        }
        assert!(checked >= 10, "{checked} options take more than text");
    }

    #[test]
    fn values_are_refused_with_the_range_that_they_may_have() {
        for (line, expected) in [
            ("run --port http", "--port http is no port; give a number from 1 to 65535"),
            ("run --port -1", "--port -1 is no port; give a number from 1 to 65535"),
            (
                "run --port 80 --address here",
                "--address here is no IP address; write one like 192.0.2.1 or 2001:db8::1, or leave it out",
            ),
            (
                "metrics --listen localhost:9818",
                "--listen localhost:9818 is no address with a port; write one like 127.0.0.1:9818 or [::1]:9818",
            ),
            (
                "size --drain-per-s abc",
                "--drain-per-s abc is no number; give connections a second above 0, up to 100000000",
            ),
            (
                "size --port 80 --for 0",
                "--for 0 is no time to watch; give whole seconds from 1 to 86400",
            ),
            (
                "top --every 61",
                "--every 61 is no time between looks; give whole seconds from 1 to 60",
            ),
            (
                "agent --destination ::1 --longest-s x",
                "--longest-s x is no number; give seconds from 0.01 to 655.35",
            ),
        ] {
            assert_eq!(typed(line), expected);
        }
    }

    #[test]
    fn options_that_exclude_each_other_are_both_named() {
        assert_eq!(
            typed("size --port 80 --burst-s 3"),
            "--port does not go with --burst-s; leave one of the two out"
        );
        assert_eq!(typed("run --port 80 --port 81"), "--port is given twice; give it once");
    }

    #[test]
    fn names_without_quotes_are_put_into_them() {
        let quoted = "rst-syn stands alone; quote the names: --mechanism \"abort rst-syn\"";
        assert_eq!(typed("run --port 80 --mechanism abort rst-syn"), quoted);
        assert_eq!(typed("run --mechanism=abort rst-syn --port 80"), quoted);
        assert_eq!(
            typed("check --port 80 --fin rst-fin strict"),
            "strict stands alone; quote the names: --fin \"rst-fin strict\""
        );
        assert!(typed("run abort --mechanism rst-syn").starts_with("unexpected argument 'abort'"));
    }
}
