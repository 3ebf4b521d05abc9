// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `result.jsonl`: a line a point, written so that a killed run loses at most its last line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::point::Point;

/// What can be wrong with files of results.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file cannot be read.
    #[error("{file}: {source}; name a result.jsonl that a run wrote")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{file}: {source}; the point is not saved: make the folder writable, with room")]
    Unwritable {
        /// The file.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A line is not a point.
    #[error("{file}:{line}: {what}; remove the line, or run its scenario again")]
    Line {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A Parquet file is not one of points.
    #[error("{file}: {what}; take the file that a run with --format parquet wrote")]
    Row {
        /// The file.
        file: String,
        /// What is wrong with it, and in which row, counted from 1.
        what: String,
    },
    /// This program cannot read or write Parquet.
    #[error("{file}: this program was built without Parquet; build it with --features parquet")]
    NoParquet {
        /// The file.
        file: String,
    },
    /// The last line ends in its middle: the run was killed while it wrote.
    #[error("{file}:{line}: the last line is cut off ({what}); run that point again")]
    Torn {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What the parser says.
        what: String,
    },
    /// A point has something that JSON cannot say.
    #[error(
        "{file}: {path} of \"{curve}\" at {offered} × capacity is not a finite number; the point is not saved: mend the measurement"
    )]
    NotFinite {
        /// The file it was meant for.
        file: String,
        /// The number's path.
        path: String,
        /// The point's curve.
        curve: String,
        /// The point's offered load, in multiples of capacity.
        offered: f64,
    },
}

/// Points that were read, and the lines that a killed run left unfinished.
#[derive(Debug, Default)]
pub struct Results {
    /// Every whole point, in the order of files and lines.
    pub points: Vec<Point>,
    /// For each file that a killed run left: [`ResultsError::Torn`], to be shown as a warning.
    pub torn: Vec<ResultsError>,
}

impl Results {
    /// Reads any set of files; those whose name ends in `.parquet` as Parquet.
    ///
    /// # Errors
    /// [`ResultsError::Unreadable`]; [`ResultsError::Line`] for a line that is not a point, unless
    /// it is the last and has no end; [`ResultsError::Row`] and [`ResultsError::NoParquet`].
    pub fn read<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<Self, ResultsError> {
        let mut results = Self::default();
        for file in files {
            results.read_one(file.as_ref())?;
        }
        Ok(results)
    }

    fn read_one(&mut self, path: &Path) -> Result<(), ResultsError> {
        let file = path.display().to_string();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            #[cfg(feature = "parquet")]
            self.points.extend(crate::columns::read(path)?);
            #[cfg(not(feature = "parquet"))]
            return Err(ResultsError::NoParquet { file });
            #[cfg(feature = "parquet")]
            return Ok(());
        }
        let bytes = fs::read(path)
            .map_err(|source| ResultsError::Unreadable { file: file.clone(), source })?;
        for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let (file, line) = (file.clone(), index + 1);
            if text.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice(text) {
                Ok(point) => self.points.push(point),
                Err(error) if text.ends_with(b"\n") => {
                    return Err(ResultsError::Line { file, line, what: what(&error) });
                }
                Err(error) => self.torn.push(ResultsError::Torn { file, line, what: what(&error) }),
            }
        }
        Ok(())
    }
}

/// Without the parser's own line, which is always 1 and misleads beside the file's.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(what, _)| what.to_owned())
}

/// Appends points to a file, each safe on the disk before the next is measured.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
}

impl Writer {
    /// Opens a file, or makes it. A torn last line of an earlier run is removed, so that the next
    /// point does not grow onto it.
    ///
    /// # Errors
    /// [`ResultsError::Unwritable`]; [`ResultsError::Line`] when the file ends in something that
    /// no run wrote, which is left as it is.
    pub fn open(path: &Path) -> Result<Self, ResultsError> {
        let unwritable =
            |source| ResultsError::Unwritable { file: path.display().to_string(), source };
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)
            .map_err(unwritable)?;
        let bytes = fs::read(path).map_err(unwritable)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let tail = &bytes[whole..];
        let mut writer = Self { path: path.to_owned(), file };
        if serde_json::from_slice::<Point>(tail).is_ok() {
            writer.save(b"\n")?;
        } else if tail.starts_with(b"{") {
            writer.file.set_len(whole as u64).map_err(unwritable)?;
        } else if !tail.is_empty() {
            let line = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(ResultsError::Line {
                file: path.display().to_string(),
                line,
                what: "this is no result of a run".to_owned(),
            });
        }
        Ok(writer)
    }

    /// Appends a point; when this returns, it is on the disk.
    ///
    /// # Errors
    /// [`ResultsError::Unwritable`], or [`ResultsError::NotFinite`] for a number that could not be
    /// read again.
    pub fn append(&mut self, point: &Point) -> Result<(), ResultsError> {
        finite(point, &self.path)?;
        let mut line = serde_json::to_vec(point).expect("it has just been serialized");
        line.push(b'\n');
        self.save(&line)
    }

    fn save(&mut self, bytes: &[u8]) -> Result<(), ResultsError> {
        // One write: what another process reads meanwhile is a whole line or none.
        self.file.write_all(bytes).and_then(|()| self.file.sync_data()).map_err(|source| {
            ResultsError::Unwritable { file: self.path.display().to_string(), source }
        })
    }
}

/// A point as JSON that can be read again, for this file.
pub(crate) fn finite(point: &Point, path: &Path) -> Result<Value, ResultsError> {
    let value = serde_json::to_value(point).expect("a point has only strings as keys");
    match null(&value) {
        None => Ok(value),
        Some(number) => Err(ResultsError::NotFinite {
            file: path.display().to_string(),
            path: number,
            curve: point.curve.clone(),
            offered: point.offered_over_capacity,
        }),
    }
}

/// Where JSON would have to say null: the schema has no optional numbers.
fn null(value: &Value) -> Option<String> {
    value.as_object()?.iter().find_map(|(name, value)| match value {
        Value::Null => Some(name.clone()),
        Value::Object(_) => null(value).map(|path| format!("{name}.{path}")),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::point;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.jsonl");
        let points = [point("default", 0.5), point("abort", 2.0), point("abort", 3.0)];
        Writer::open(&path).unwrap().append(&points[0]).unwrap();
        let mut again = Writer::open(&path).unwrap();
        again.append(&points[1]).unwrap();
        let other = folder.path().join("other.jsonl");
        Writer::open(&other).unwrap().append(&points[2]).unwrap();
        let read = Results::read([&path, &other]).unwrap();
        assert_eq!(read.points, points);
        assert!(read.torn.is_empty());
    }

    #[test]
    fn a_killed_run_loses_its_last_line_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.jsonl");
        Writer::open(&path).unwrap().append(&point("default", 0.5)).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 1..whole.len() - 1 {
            fs::write(&path, [&whole[..], &whole[..cut]].concat()).unwrap();
            let read = Results::read([&path]).unwrap();
            assert_eq!(read.points.len(), 1);
            let [torn] = &read.torn[..] else { panic!("{:?}", read.torn) };
            assert!(torn.to_string().contains("result.jsonl:2: "), "{torn}");
        }
        Writer::open(&path).unwrap().append(&point("default", 0.8)).unwrap();
        let read = Results::read([&path]).unwrap();
        assert_eq!((read.points.len(), read.torn.len()), (2, 0));
    }

    #[test]
    fn a_whole_last_line_without_its_end_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.jsonl");
        Writer::open(&path).unwrap().append(&point("default", 0.5)).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        Writer::open(&path).unwrap().append(&point("default", 0.8)).unwrap();
        assert_eq!(Results::read([&path]).unwrap().points.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.jsonl");
        fs::write(&path, "\n{\"scenario\": 1}\n").unwrap();
        let error = Results::read([&path]).unwrap_err().to_string();
        assert!(error.contains("result.jsonl:2: ") && !error.contains('\n'), "{error}");
        let absent = Results::read([folder.path().join("none")]).unwrap_err().to_string();
        assert!(absent.contains("none: "), "{absent}");
        fs::write(&path, "title = \"a scenario\"").unwrap();
        let error = Writer::open(&path).unwrap_err().to_string();
        assert!(error.contains("result.jsonl:1: "), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"title = \"a scenario\"");
    }

    #[test]
    fn a_number_that_could_not_be_read_again_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.jsonl");
        let mut bad = point("default", 0.5);
        bad.response_ms.p99 = f64::NAN;
        let error = Writer::open(&path).unwrap().append(&bad).unwrap_err().to_string();
        assert!(error.contains("response_ms.p99") && error.contains("default"), "{error}");
        assert!(fs::read(&path).unwrap().is_empty());
    }
}
