// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of a configuration file, each told of with its line where it is wrong.

use std::fmt::Display;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use serde::de::DeserializeOwned;
use tidegate_datapath::network::Network;
use tidegate_policy::bounds;
use tidegate_policy::mechanism::QUEUE_LENGTH;
use toml::{Spanned, Table, Value};

use crate::failure::{Failure, Result};
use crate::setting::{self, Written, Wrong};

/// A configuration file's text.
pub fn text(path: &Path) -> Result<String> {
    let fix = || "name a configuration that can be read with --config".to_owned();
    fs::read_to_string(path).map_err(|source| unreadable(path, source, fix))
}

/// A file that could not be read, with a fix where it may be read. A unit's root has no rights to what is another
/// user's, nor to what is in another's folder.
pub fn unreadable(path: &Path, source: io::Error, fix: impl FnOnce() -> String) -> Failure {
    let is_denied = |kind| kind == io::ErrorKind::PermissionDenied;
    let fix = if !is_denied(source.kind()) {
        fix()
    } else if fs::metadata(path).is_err_and(|e| is_denied(e.kind())) {
        "put it where root may look into every folder, as into /etc/tidegate, and run as root"
            .to_owned()
    } else {
        format!("make root its owner (chown root {}), and run as root", path.display())
    };
    Failure::File { path: path.to_owned(), source, fix }
}

/// Tells what is wrong at a place of the text.
pub struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    manual: &'static str,
}

impl<'a> Reader<'a> {
    /// Of a file's text; its path, and the manual that has its keys, are for what is told.
    pub fn new(path: &'a Path, text: &'a str, manual: &'static str) -> Self {
        Reader { path, text, manual }
    }

    fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text[..span.start.min(self.text.len())].matches('\n').count()
    }

    /// A failure at a place of the text.
    pub fn wrong(
        &self,
        span: Range<usize>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Failure {
        Failure::Configuration {
            file: self.path.to_owned(),
            line: self.line(&span),
            what: what.into(),
            fix: fix.into(),
        }
    }

    /// The whole of it.
    pub fn file<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|mut error: toml::de::Error| {
            let span = error.span().unwrap_or(0..0);
            // It tells the keys that lead to the place only where it cannot show the place.
            error.set_input(None);
            let told = error.to_string();
            let keys = told.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
            let (what, fix) = self.explain(error.message(), keys.unwrap_or_default(), &span);
            self.wrong(span, what, fix)
        })
    }

    /// The parser's message, of what stands at `span` and has these keys, in an operator's words.
    fn explain(&self, message: &str, keys: &str, span: &Range<usize>) -> Wrong {
        let given = self.text.get(span.clone()).unwrap_or_default();
        let message = message.replace('\n', " ");
        let (found, expected) = match message.split_once(", expected ") {
            Some((found, expected)) => (found, Some(expected)),
            None => (&message[..], None),
        };
        match (found, expected) {
            // A word that begins as inf or nan does is taken for a number.
            ("string values must be quoted", _) | ("invalid float", Some("`inf`" | "`nan`")) => {
                (format!("{given} is not in quotes"), format!("write \"{given}\""))
            }
            ("duplicate key", _) => {
                (format!("{given} stands twice"), "remove one of the two".to_owned())
            }
            (found, Some(expected)) if !keys.is_empty() && found.starts_with("invalid ") => {
                self.wrong_type(keys, given, span, expected)
            }
            (found, Some(expected)) => (found.to_owned(), format!("expected {expected}")),
            (found, None) => (found.to_owned(), format!("see the documentation, {}", self.manual)),
        }
    }

    /// A value, a part of one or a section, where another type belongs.
    fn wrong_type(&self, keys: &str, given: &str, span: &Range<usize>, expected: &str) -> Wrong {
        let key = keys.rsplit('.').next().unwrap_or(keys);
        let (single, double) = (format!("[{keys}]"), format!("[[{keys}]]"));
        let is_value = self.text[..span.start].trim_end().ends_with('=');
        let what = if given == single || given == double {
            given.to_owned()
        } else if given.contains('\n') {
            key.to_owned()
        } else if is_value {
            format!("{key} = {given}")
        } else {
            format!("{given} in {key}")
        };
        let fix = if SECTIONS.contains(&keys) && given == single {
            format!("write {double}, with two brackets")
        } else if SECTIONS.contains(&keys) && given.starts_with('{') {
            format!("write {key} = [{{ ... }}], or {double} with two brackets")
        } else if TABLES.contains(&keys) && given == double {
            format!("write {single}, with one bracket")
        } else if TABLES.contains(&keys) {
            "give a table, { ... }".to_owned()
        } else {
            let known = EXPECTED.iter().find(|(theirs, _)| expected.starts_with(theirs));
            format!("give {}", known.map_or(expected, |(_, ours)| ours))
        };
        (format!("{what} is of the wrong type"), fix)
    }

    /// What is `true`, `false` or a table of these options: `None` where it is false, and no options
    /// where it is true.
    pub fn options(
        &self,
        name: &str,
        value: &Spanned<Value>,
        known: &[&str],
        fix: &str,
    ) -> Result<Option<Table>> {
        let table = match value.get_ref() {
            Value::Boolean(false) => return Ok(None),
            Value::Boolean(true) => return Ok(Some(Table::new())),
            Value::Table(table) => table,
            other => {
                return Err(self.wrong(
                    value.span(),
                    format!("{name} = {other} is neither true nor false nor a table"),
                    fix,
                ));
            }
        };
        if let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(self.wrong(value.span(), format!("{name} knows no {unknown}"), fix));
        }
        Ok(Some(table.clone()))
    }

    /// A number within its bounds.
    pub fn number(&self, name: &str, value: &Spanned<i64>, from: i64, to: i64) -> Result<i64> {
        self.within(name, value, from..=to)
    }

    /// How many places a queue has.
    pub fn queue_length(&self, name: &str, length: &Spanned<i64>) -> Result<u32> {
        let (from, to) = QUEUE_LENGTH.into_inner();
        Ok(self.number(name, length, from.into(), to.into())? as u32)
    }

    /// A number within its bounds, in 1000ths.
    pub fn thousandths(
        &self,
        name: &str,
        value: &Spanned<f64>,
        range: RangeInclusive<f64>,
    ) -> Result<u32> {
        Ok((self.within(name, value, range)? * 1000.0).round() as u32)
    }

    fn within<T: PartialOrd + Display + Copy>(
        &self,
        name: &str,
        value: &Spanned<T>,
        range: RangeInclusive<T>,
    ) -> Result<T> {
        let within = bounds::within(name, *value.get_ref(), range);
        within.map_err(|(what, fix)| self.wrong(value.span(), what, fix))
    }

    /// A listener's IP address, where one is given; of a path there must be one.
    pub fn address(
        &self,
        address: &Option<Spanned<String>>,
        is_path: bool,
    ) -> Result<Option<IpAddr>> {
        let Some(text) = address else { return Ok(None) };
        let address = text.get_ref().parse().map_err(|_| {
            let or_none = if is_path { "" } else { ", or leave it out" };
            self.wrong(
                text.span(),
                format!("address = \"{}\" is no IP address", text.get_ref()),
                format!("write one like \"192.0.2.1\" or \"2001:db8::1\"{or_none}"),
            )
        })?;
        setting::address(Written::InFile, address, is_path)
            .map_err(|(what, fix)| self.wrong(text.span(), what, fix))?;
        Ok(Some(address))
    }

    /// A network; `wrong` tells what is wrong with a text that is none.
    pub fn network(
        &self,
        text: &Spanned<String>,
        wrong: impl FnOnce(&str) -> String,
    ) -> Result<Network> {
        let Ok(network) = text.get_ref().parse() else {
            return Err(self.wrong(
                text.span(),
                wrong(text.get_ref()),
                "write one like \"192.0.2.0/24\" or \"2001:db8::/32\"",
            ));
        };
        setting::network(&network, str::to_owned)
            .map(|()| network)
            .map_err(|(what, fix)| self.wrong(text.span(), wrong(text.get_ref()) + &what, fix))
    }
}

/// What stands in two brackets, as often as is needed.
const SECTIONS: [&str; 4] = ["listener", "path", "destination", "listener.police"];
/// What is a table. The parser takes a list for one, too, and then complains of what is in it.
const TABLES: [&str; 5] =
    ["time_wait", "listener.reserv", "listener.auto", "listener.shed", "path.shed"];
/// What the parser expects, in its words and in an operator's.
const EXPECTED: [(&str, &str); 8] = [
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a string", "a text in quotes"),
    ("path string", "a path in quotes"),
    ("a sequence", "a list, [...]"),
    ("a map", "a table, { ... }"),
    ("struct", "a table, { ... }"),
];
