// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text that a scenario is read from.

use std::path::Path;

use toml::Spanned;

use super::file::File;
use crate::error::{Place, ScenarioError};

/// A text, and what complaints call it.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn read(&self) -> Result<File, ScenarioError> {
        toml::from_str(self.text).map_err(|error| {
            let mut what = error.message().lines().collect::<Vec<_>>().join("; ");
            if !what.contains("expected") {
                what.push_str("; docs/experiments.md has every key of a scenario");
            }
            self.wrong(error.span().map(|span| span.start), what)
        })
    }

    /// Where it lies.
    pub(super) fn folder(&self) -> &Path {
        Path::new(self.file).parent().unwrap_or(Path::new(""))
    }

    /// That something is wrong, at the byte at `offset`.
    pub(super) fn wrong(&self, offset: Option<usize>, what: String) -> ScenarioError {
        let line = offset.map(|offset| line(self.text, offset));
        ScenarioError::Text { place: Place { file: self.file.to_owned(), line }, what }
    }

    /// Likewise, where these keys begin.
    pub(super) fn wrong_at<T>(&self, keys: &Spanned<T>) -> impl Fn(String) -> ScenarioError {
        let offset = keys.span().start;
        move |what| self.wrong(Some(offset), what)
    }
}

/// The line that holds the byte at `offset`, counted from 1.
fn line(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
