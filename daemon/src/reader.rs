// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of a configuration file, each told of with its line where it is wrong.

use std::fmt::Display;
use std::fs;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use serde::de::DeserializeOwned;
use tidegate_datapath::network::Network;
use tidegate_policy::mechanism::QUEUE_LENGTH;
use toml::{Spanned, Table, Value};

use crate::failure::{Failure, Result};
use crate::setting::{self, Written};

/// A configuration file's text.
pub fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
        fix: "name a configuration that can be read with --config".to_owned(),
    })
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
        toml::from_str(self.text).map_err(|e| {
            let (what, fix) = explain(e.message());
            let fix = fix.unwrap_or_else(|| format!("see {}", self.manual));
            self.wrong(e.span().unwrap_or(0..0), what, fix)
        })
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

    /// A fraction within its bounds, in 256ths.
    pub fn fraction_x256(
        &self,
        name: &str,
        value: &Spanned<f64>,
        range: RangeInclusive<f64>,
    ) -> Result<u32> {
        self.parts(name, value, range, 256.0)
    }

    /// The same in 1000ths.
    pub fn thousandths(
        &self,
        name: &str,
        value: &Spanned<f64>,
        range: RangeInclusive<f64>,
    ) -> Result<u32> {
        self.parts(name, value, range, 1000.0)
    }

    fn parts(
        &self,
        name: &str,
        value: &Spanned<f64>,
        range: RangeInclusive<f64>,
        parts: f64,
    ) -> Result<u32> {
        Ok((self.within(name, value, range)? * parts).round() as u32)
    }

    fn within<T: PartialOrd + Display + Copy>(
        &self,
        name: &str,
        value: &Spanned<T>,
        range: RangeInclusive<T>,
    ) -> Result<T> {
        let number = *value.get_ref();
        if range.contains(&number) {
            return Ok(number);
        }
        let (from, to) = range.into_inner();
        Err(self.wrong(
            value.span(),
            format!("{name} = {number} is out of range"),
            format!("give a number from {from} to {to}"),
        ))
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
        match setting::network_fix(&network) {
            Some(fix) => {
                let what = format!("{}, but an address in one", wrong(text.get_ref()));
                Err(self.wrong(text.span(), what, fix))
            }
            None => Ok(network),
        }
    }
}

/// What the parser expects, in its words and in an operator's.
const EXPECTED: [(&str, &str); 5] = [
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a sequence", "a list, [...]"),
    ("a map", "a table, {...}"),
];

/// The parser's message as what and, where it says what it expected (a type, or the keys that it
/// knows), fix.
fn explain(message: &str) -> (String, Option<String>) {
    let message = message.replace('\n', " ");
    let Some((what, expected)) = message.split_once(", expected ") else {
        return (message, None);
    };
    let expected =
        EXPECTED.iter().find(|(theirs, _)| *theirs == expected).map_or(expected, |e| e.1);
    (what.to_owned(), Some(format!("expected {expected}")))
}
