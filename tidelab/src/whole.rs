// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are written whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Finds out whether a file can be written, and leaves what is there as it is.
pub(crate) fn try_to_write(out: &Path) -> io::Result<()> {
    if is_written_through(out) {
        return OpenOptions::new().append(true).open(out).map(drop);
    }
    let trial = unfinished(out);
    File::create(&trial)?;
    fs::remove_file(trial)
}

/// Writes a file, whole or not at all. One that says the same is left alone, and any other stays until the new
/// one is on the disk: there may be no room for it, or no time.
pub(crate) fn write(out: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let text = text.as_ref();
    if says(out, text) {
        return Ok(());
    }
    if is_written_through(out) {
        return fs::write(out, text);
    }
    let unfinished = unfinished(out);
    let written = save(&unfinished, text).and_then(|()| fs::rename(&unfinished, out));
    if written.is_err() {
        // It would only take what room there is.
        let _ = fs::remove_file(unfinished);
    }
    written
}

/// Whether a file says this. What is none, a terminal, say, is not read.
fn says(file: &Path, text: &[u8]) -> bool {
    file.is_file() && fs::read(file).is_ok_and(|there| there == text)
}

/// Writes a file; when this returns, it is on the disk.
fn save(file: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create(file)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Whether a link or a device is there: unlike a file it must not be replaced.
fn is_written_through(out: &Path) -> bool {
    fs::symlink_metadata(out).is_ok_and(|there| !there.is_file())
}

/// What takes the file's name once it is whole.
pub(crate) fn unfinished(out: &Path) -> PathBuf {
    out.with_added_extension("unfinished")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_place_is_tried_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("machine.toml");
        try_to_write(&out).unwrap();
        assert!(names(folder.path()).is_empty());
        fs::write(&out, "older").unwrap();
        try_to_write(&out).unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "older");
        assert_eq!(names(folder.path()), [out]);
    }

    #[test]
    fn a_file_takes_the_place_of_another_but_not_of_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("machine.toml");
        for text in ["older", "newer"] {
            write(&out, text).unwrap();
            assert_eq!(fs::read_to_string(&out).unwrap(), text);
        }
        assert_eq!(names(folder.path()), std::slice::from_ref(&out));
        let link = folder.path().join("link.toml");
        symlink(&out, &link).unwrap();
        try_to_write(&link).unwrap();
        write(&link, "newest").unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "newest");
        assert!(link.is_symlink());
    }

    #[test]
    fn a_full_disk_leaves_what_was_there_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("machine.toml");
        fs::write(&out, "older").unwrap();
        symlink("/dev/full", unfinished(&out)).unwrap();
        let error = write(&out, "newer").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&out).unwrap(), "older");
        assert_eq!(names(folder.path()), [out]);
    }
}
