// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file as it is served.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::request::Request;

/// Files up to this length are held in memory: copying them is cheaper than the second system call
/// that sendfile needs (Shukla, *TCP Connection Management Mechanisms*, 2005, 3.1.1).
pub(crate) const IN_MEMORY_MAX_BYTES: u64 = 32 * 1024;
/// The last second that a date in HTTP can name: the end of the year 9999.
const DATE_MAX_S: i64 = 253_402_300_799;

/// A file as it is served: what it is, and how to get at its contents.
#[derive(Debug)]
pub(crate) struct Resource {
    pub contents: Contents,
    /// Content-Type.
    pub media_type: String,
    /// Last-Modified and ETag, as lines of a reply's head.
    pub validators: String,
    version: Version,
}

/// Where a file's contents are.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// Here.
    InMemory(Arc<[u8]>),
    /// In the kernel, so many bytes.
    OnDisk(Arc<File>, u64),
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    length_bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Version {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length_bytes: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn entity_tag(&self) -> String {
        format!("\"{:x}-{:x}\"", self.modified_ns, self.length_bytes)
    }

    /// To the second, as Last-Modified tells it.
    fn modified(&self) -> SystemTime {
        let seconds = self.modified_ns.div_euclid(1_000_000_000);
        let seconds = seconds.clamp(0, i128::from(DATE_MAX_S)) as u64;
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }
}

impl Resource {
    /// Takes in an open file. Its path tells its media type.
    pub(crate) fn load(file: File, metadata: &Metadata, path: &Path) -> io::Result<Self> {
        let version = Version::of(metadata);
        let contents = if version.length_bytes <= IN_MEMORY_MAX_BYTES {
            let mut bytes = Vec::with_capacity(version.length_bytes as usize);
            file.take(version.length_bytes).read_to_end(&mut bytes)?;
            Contents::InMemory(bytes.into())
        } else {
            Contents::OnDisk(Arc::new(file), version.length_bytes)
        };
        let validators = format!(
            "Last-Modified: {}\r\nETag: {}\r\n",
            httpdate::fmt_http_date(version.modified()),
            version.entity_tag()
        );
        let media_type = mime_guess::from_path(path).first_or_octet_stream().to_string();
        Ok(Self { contents, media_type, validators, version })
    }

    /// Whether it is still what it was when it was loaded.
    pub(crate) fn is(&self, version: Version) -> bool {
        self.version == version
    }

    pub(crate) fn length_bytes(&self) -> u64 {
        match &self.contents {
            Contents::InMemory(bytes) => bytes.len() as u64,
            Contents::OnDisk(_, length_bytes) => *length_bytes,
        }
    }

    /// Whether the client has it already. Entity tags go before dates (RFC 9110, 13.2.2).
    pub(crate) fn is_known_to(&self, request: &Request) -> bool {
        if let Some(tags) = &request.none_match {
            let own = self.version.entity_tag();
            // No comma is in a tag of ours, so splitting others' at theirs cannot make one.
            return tags
                .split(',')
                .map(str::trim)
                .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == own);
        }
        request.modified_since.is_some_and(|since| self.version.modified() <= since)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;
    use crate::request::parse;

    fn request(fields: &str) -> Request {
        parse(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap().unwrap()
    }

    fn resource(modified: SystemTime) -> Resource {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"words").unwrap();
        file.rewind().unwrap();
        file.set_modified(modified).unwrap();
        let metadata = file.metadata().unwrap();
        Resource::load(file, &metadata, Path::new("a.html")).unwrap()
    }

    #[test]
    fn what_the_client_has_is_compared() {
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let resource = resource(second + Duration::from_millis(500));
        assert!(resource.validators.contains("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
        let tag = resource.version.entity_tag();
        for (fields, known) in [
            (String::new(), false),
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n".to_owned(), false),
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(), true),
            (format!("If-None-Match: {tag}\r\n"), true),
            (format!("If-None-Match: \"x,y\", W/{tag}\r\n"), true),
            ("If-None-Match: *\r\n".to_owned(), true),
            // A tag that differs says more than a date that does not.
            (
                "If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                    .to_owned(),
                false,
            ),
        ] {
            assert_eq!(resource.is_known_to(&request(&fields)), known, "{fields}");
        }
    }

    #[test]
    fn times_that_no_date_can_name_are_bounded() {
        let before = resource(SystemTime::UNIX_EPOCH - Duration::from_secs(86_400));
        assert!(before.validators.contains("Thu, 01 Jan 1970 00:00:00 GMT"));
    }
}
