// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorded traces, which lie beside scenarios.

use std::path::Path;

use tidegate_client::Trace;

use crate::error::{Place, ScenarioError};

/// Reads a recorded trace: a text file of seconds since its beginning, one a line, sorted; empty
/// lines and lines that begin with `#` are skipped.
///
/// # Errors
/// [`ScenarioError::Text`], with the file and, where it is one, the line.
pub fn read_trace(file: &Path) -> Result<Trace, ScenarioError> {
    Trace::parse(&read_text(file)?).map_err(|error| wrong(file, error.to_string()))
}

/// Reads a recorded trace that is to be played faster or slower than it was.
///
/// # Errors
/// As [`read_trace`]; and for one whose starts are all at one time, which has no rate.
pub fn read_scalable_trace(file: &Path) -> Result<Trace, ScenarioError> {
    let trace = read_trace(file)?;
    if trace.per_s().is_none() {
        let what = "its starts are all at one time, so it has no rate to be scaled: give more";
        return Err(wrong(file, what.to_owned()));
    }
    Ok(trace)
}

/// What a recorded trace says.
pub(crate) fn read_text(file: &Path) -> Result<String, ScenarioError> {
    std::fs::read_to_string(file)
        .map_err(|error| wrong(file, format!("{error}; name a text file of seconds, one a line")))
}

fn wrong(file: &Path, what: String) -> ScenarioError {
    let place = Place { file: file.display().to_string(), line: None };
    ScenarioError::Text { place, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_fix() {
        let told = |text: Option<&str>| {
            let name = format!("tidegate-trace-{}.txt", std::process::id());
            let file = std::env::temp_dir().join(name);
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let told = read_trace(&file).map_err(|error| error.to_string());
            let _ = std::fs::remove_file(&file);
            (told, format!("{}: ", file.display()))
        };
        let (told_of, place) = told(Some("0\n1.5\nsoon\n"));
        let error = told_of.unwrap_err();
        assert!(error.starts_with(&format!("{place}line 3 of the trace, `soon`")), "{error}");
        assert!(error.contains("give seconds") && error.lines().count() == 1, "{error}");
        let (told_of, place) = told(None);
        let error = told_of.unwrap_err();
        assert!(error.starts_with(&place) && error.contains("one a line"), "{error}");
        assert_eq!(told(Some("0\n1.5\n")).0.unwrap().last_ns(), 1_500_000_000);
    }
}
