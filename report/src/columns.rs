// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `result.parquet`: the points of a `result.jsonl` in columns, for who reads a sweep of many runs
//! with tools of their own.
//!
//! The schema is that of the lines: a group is a Parquet map of its parts, and what a line leaves
//! out is null or an empty map. A file is written whole; it is not what a run appends to.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnDescriptor;
use serde_json::Value;

use crate::point::Point;
use crate::results::{ResultsError, finite};

/// Names of a map's inside, which Parquet prescribes (LogicalTypes.md, Maps).
const ENTRIES: &str = "key_value";
const KEY: &str = "key";
const VALUE: &str = "value";
/// The same of a list's (LogicalTypes.md, Lists).
const ITEMS: &str = "list";

const TEXTS: &[&str] = &["scenario", "world", "curve", "mechanism", "server", "clients"];
const NUMBERS: &[&str] = &[
    "capacity_per_s",
    "offered_per_s",
    "offered_over_capacity",
    "replies_per_s",
    "late_p99_ms",
    "duration_s",
];
const OPTIONAL_TEXTS: &[&str] = &["tcp"];
const OPTIONAL: &[&str] = &["replies_per_s_ci95", "kernel_s"];
const COUNTS: &[&str] = &["attempts", "seed"];
const TIMES: &[&str] = &["response_ms", "refusal_ms", "delay_ms"];
/// Maps by what their values are.
const MAPS: &[(&str, &str)] = &[
    ("errors_per_s", "required double value;"),
    ("answered_within_per_s", "required double value;"),
    ("queue_drops_per_s", "required double value;"),
    ("verdicts_per_s", "required double value;"),
    ("cpu", "required double value;"),
    ("cpu_components", "required double value;"),
    ("cpu_calls", "required double value;"),
    ("visits", "required double value;"),
    ("networks", "required double value;"),
    ("serving", "required double value;"),
    ("time_wait", "required double value;"),
    ("segments", "required int64 value (INTEGER(64, false));"),
    ("kernel", "required int64 value;"),
    (
        "syns_per_attempt",
        "required group value {
            required int64 attempts (INTEGER(64, false));
            required int64 errors (INTEGER(64, false));
        }",
    ),
    ("seconds", "required group value (LIST) { repeated group list { required double element; } }"),
];

/// The schema of [`Point`], in Parquet's words.
fn schema() -> String {
    let mut fields = String::new();
    let mut add = |field: String| fields.push_str(&field);
    TEXTS.iter().for_each(|name| add(format!("required binary {name} (UTF8);")));
    OPTIONAL_TEXTS.iter().for_each(|name| add(format!("optional binary {name} (UTF8);")));
    NUMBERS.iter().for_each(|name| add(format!("required double {name};")));
    COUNTS.iter().for_each(|name| add(format!("required int64 {name} (INTEGER(64, false));")));
    OPTIONAL.iter().for_each(|name| add(format!("optional double {name};")));
    for name in TIMES {
        let each = ["mean", "p50", "p90", "p99", "max", "deviation"];
        let each = each.map(|part| format!("required double {part};")).concat();
        add(format!("required group {name} {{ {each} optional double ci95; }}"));
    }
    for (name, value) in MAPS {
        add(format!(
            "required group {name} (MAP) {{
                repeated group {ENTRIES} {{ required binary {KEY} (UTF8); {value} }}
            }}"
        ));
    }
    add(format!(
        "required group warnings (LIST) {{
            repeated group {ITEMS} {{ required binary element (UTF8); }}
        }}"
    ));
    format!("message point {{ {fields} }}")
}

/// Writes points to a file, in place of what is there; when this returns, it is whole on the disk.
///
/// # Errors
/// [`ResultsError::Unwritable`]; [`ResultsError::NotFinite`] for a number that could not be read
/// again. What was there is then still there.
pub fn write_parquet(path: &Path, points: &[Point]) -> Result<(), ResultsError> {
    let points = points.iter().map(|point| finite(point, path)).collect::<Result<Vec<_>, _>>()?;
    let part = path.with_extension("parquet.part");
    let written = write(&part, &points).map_err(io::Error::other);
    written.and_then(|()| fs::rename(&part, path)).map_err(|source| {
        // What is left of it is of no use to anybody.
        let _ = fs::remove_file(&part);
        ResultsError::Unwritable { file: path.display().to_string(), source }
    })
}

fn write(path: &Path, points: &[Value]) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(&schema())?);
    for name in points.iter().filter_map(Value::as_object).flat_map(|point| point.keys()) {
        if !schema.get_fields().iter().any(|field| field.name() == name) {
            let what = format!("a point has \"{name}\", which the Parquet schema lacks");
            return Err(ParquetError::General(what));
        }
    }
    let file = File::create(path)?;
    let properties = Arc::new(WriterProperties::new());
    let mut writer = SerializedFileWriter::new(&file, schema, properties)?;
    let columns = writer.schema_descr().columns().to_vec();
    let mut rows = writer.next_row_group()?;
    for column in &columns {
        write_column(&mut rows, column, points)?;
    }
    rows.close()?;
    writer.close()?;
    Ok(file.sync_all()?)
}

/// What stands in a column: each place has its levels (Melnik et al., *Dremel*, VLDB 2010, section
/// 4.1), and a value unless something above it is missing.
#[derive(Default)]
struct Column<'a> {
    values: Vec<Leaf<'a>>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

enum Leaf<'a> {
    Text(&'a str),
    Number(&'a Value),
}

fn write_column(
    rows: &mut SerializedRowGroupWriter<'_, &File>,
    column: &ColumnDescriptor,
    points: &[Value],
) -> Result<(), ParquetError> {
    let mut shredded = Column::default();
    let path: Vec<&str> = column.path().parts().iter().map(String::as_str).collect();
    for point in points {
        shredded.add(point, &path, column.max_def_level());
    }
    let Column { values, definitions, repetitions } = &shredded;
    let levels = (Some(&definitions[..]), Some(&repetitions[..]));
    let mut writer = rows.next_column()?.ok_or_else(|| ParquetError::EOF("a column".to_owned()))?;
    let numbers = values.iter().filter_map(|leaf| match leaf {
        Leaf::Number(value) => Some(*value),
        Leaf::Text(_) => None,
    });
    match writer.untyped() {
        ColumnWriter::DoubleColumnWriter(writer) => {
            let numbers: Vec<f64> = numbers.filter_map(Value::as_f64).collect();
            writer.write_batch(&numbers, levels.0, levels.1)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            // Parquet keeps an unsigned number as the signed one of the same bits.
            let signed = |value: &Value| value.as_i64().or(value.as_u64().map(|n| n as i64));
            let numbers: Vec<i64> = numbers.filter_map(signed).collect();
            writer.write_batch(&numbers, levels.0, levels.1)?;
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let texts = values.iter().filter_map(|leaf| match leaf {
                Leaf::Text(text) => Some(ByteArray::from(*text)),
                Leaf::Number(_) => None,
            });
            writer.write_batch(&texts.collect::<Vec<_>>(), levels.0, levels.1)?;
        }
        _ => return Err(ParquetError::General(format!("a type that no point has: {path:?}"))),
    }
    writer.close()
}

impl<'a> Column<'a> {
    /// What one point has of the column at `path`, a value or some.
    fn add(&mut self, point: &'a Value, path: &[&str], defined: i16) {
        match path {
            [group, ENTRIES, VALUE, ITEMS, ..] => {
                let entries = point.get(group).and_then(Value::as_object);
                self.add_lists(
                    entries.into_iter().flatten().filter_map(|(_, list)| list.as_array()),
                );
            }
            [group, ENTRIES, rest @ ..] => {
                let entries = point.get(group).and_then(Value::as_object);
                self.add_each(entries.into_iter().flatten().filter_map(
                    |(key, value)| match rest {
                        [KEY] => Some(Leaf::Text(key)),
                        [VALUE, rest @ ..] => leaf(value, rest),
                        _ => None,
                    },
                ));
            }
            [group, ITEMS, ..] => {
                let items = point.get(group).and_then(Value::as_array);
                self.add_each(items.into_iter().flatten().filter_map(|item| leaf(item, &[])));
            }
            _ => {
                let found = leaf(point, path);
                let missing = i16::from(found.is_none());
                self.definitions.push(defined - missing);
                self.repetitions.push(0);
                self.values.extend(found);
            }
        }
    }

    /// What a point repeats.
    fn add_each(&mut self, leaves: impl Iterator<Item = Leaf<'a>>) {
        let before = self.definitions.len();
        for leaf in leaves {
            self.repetitions.push(i16::from(self.definitions.len() > before));
            self.definitions.push(1);
            self.values.push(leaf);
        }
        self.close_point(before);
    }

    /// What a point repeats, lists of it.
    fn add_lists(&mut self, lists: impl Iterator<Item = &'a Vec<Value>>) {
        let before = self.definitions.len();
        for list in lists {
            let outer = i16::from(self.definitions.len() > before);
            if list.is_empty() {
                self.definitions.push(1);
                self.repetitions.push(outer);
            }
            for (at, item) in list.iter().enumerate() {
                self.definitions.push(2);
                self.repetitions.push(if at == 0 { outer } else { 2 });
                self.values.extend(leaf(item, &[]));
            }
        }
        self.close_point(before);
    }

    /// A point that has none of what it might repeat leaves a place all the same.
    fn close_point(&mut self, before: usize) {
        if self.definitions.len() == before {
            self.definitions.push(0);
            self.repetitions.push(0);
        }
    }
}

fn leaf<'a>(value: &'a Value, path: &[&str]) -> Option<Leaf<'a>> {
    let found = path.iter().try_fold(value, |value, part| value.get(part))?;
    match found {
        Value::String(text) => Some(Leaf::Text(text)),
        Value::Number(_) => Some(Leaf::Number(found)),
        _ => None,
    }
}

/// Reads the points of a file that [`write_parquet`] wrote, or any other tool with its schema.
pub(crate) fn read(path: &Path) -> Result<Vec<Point>, ResultsError> {
    let name = || path.display().to_string();
    let unreadable = |source| ResultsError::Unreadable { file: name(), source };
    let file = File::open(path).map_err(unreadable)?;
    let wrong = |what: String| ResultsError::Row { file: name(), what };
    let reader = SerializedFileReader::new(file).map_err(|error| wrong(error.to_string()))?;
    let mut points = Vec::new();
    for row in reader.get_row_iter(None).map_err(|error| wrong(error.to_string()))? {
        let row = row.map_err(|error| wrong(error.to_string()))?.to_json_value();
        let number = points.len() + 1;
        let point = serde_json::from_value(row);
        points.push(point.map_err(|error| wrong(format!("row {number}: {error}")))?);
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::example::point;
    use crate::point::SynClass;
    use crate::results::{Results, Writer};

    /// A point that leaves nothing out.
    fn full(curve: &str) -> Point {
        let share = |name: &str| [(name.to_owned(), 0.25), (format!("{name}, other"), 1e-9)].into();
        Point {
            tcp: Some("linux-6".to_owned()),
            replies_per_s_ci95: Some(0.1),
            answered_within_per_s: [(900, 30.0), (1500, 40.5)].into(),
            verdicts_per_s: share("reset: listen queue full"),
            syns_per_attempt: [
                (1, SynClass { attempts: 7, errors: 2 }),
                (10, SynClass { attempts: 1, errors: 0 }),
            ]
            .into(),
            segments: [("syn_sent".to_owned(), u64::MAX)].into(),
            cpu: share("user"),
            cpu_components: share("driver"),
            cpu_calls: share("accept"),
            visits: share("started_per_s"),
            networks: share("large.success"),
            serving: share("accepts_per_s"),
            time_wait: share("server"),
            seconds: [
                ("failed".to_owned(), vec![]),
                ("replies".to_owned(), vec![1.0, 2.5, 0.0]),
                ("started".to_owned(), vec![7.0]),
            ]
            .into(),
            kernel: [("TcpExtListenDrops".to_owned(), -3)].into(),
            kernel_s: Some(5.01),
            warnings: vec!["late \"by\" 3 ms".to_owned(), String::new(), "ü".to_owned()],
            seed: u64::MAX,
            ..point(curve, 2.0)
        }
    }

    fn sweep() -> Vec<Point> {
        vec![point("default", 0.5), full("abort"), point("abort", 3.0), full("reserv")]
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.parquet");
        for points in [sweep(), Vec::new(), vec![full("one")]] {
            write_parquet(&path, &points).unwrap();
            assert_eq!(Results::read([&path]).unwrap().points, points);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn every_field_of_a_line_has_its_column() {
        let line = serde_json::to_value(full("abort")).unwrap();
        let of_line: BTreeSet<_> = line.as_object().unwrap().keys().cloned().collect();
        let schema = parse_message_type(&schema()).unwrap();
        let columns = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
        assert_eq!(of_line, columns);
    }

    #[test]
    fn files_of_both_kinds_are_read_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, columns) = (folder.path().join("a.jsonl"), folder.path().join("b.parquet"));
        let points = sweep();
        points[..1].iter().for_each(|point| Writer::open(&lines).unwrap().append(point).unwrap());
        write_parquet(&columns, &points[1..]).unwrap();
        assert_eq!(Results::read([&lines, &columns]).unwrap().points, points);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.parquet");
        let absent = Results::read([&path]).unwrap_err().to_string();
        assert!(absent.contains("result.parquet: "), "{absent}");
        write_parquet(&path, &sweep()).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let torn = Results::read([&path]).unwrap_err().to_string();
        assert!(torn.contains("result.parquet: ") && !torn.contains('\n'), "{torn}");
    }
}
