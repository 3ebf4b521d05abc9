// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files below a root, and nothing else.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::resource::{Resource as Limit, getrlimit};
use percent_encoding::percent_decode_str;

use crate::error::ServerError;
use crate::resource::{Resource, Version};

/// Files held, in memory or open: bounds the memory to this times `IN_MEMORY_MAX_BYTES`.
const HELD_MAX: usize = 256;
/// The part of this process's descriptors that files may hold: most are for connections.
const DESCRIPTORS_SHARE: u64 = 8;
/// How long a held file is served without a look at what its path names now.
const TRUSTED_FOR: Duration = Duration::from_secs(1);
/// What is served for a directory.
const INDEX: &str = "index.html";

/// Why a path gets no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// No regular file below the root has this path.
    NotFound,
    /// It is there, and this process may not read it.
    Forbidden,
    /// It could not be opened or read just now.
    Unavailable,
}

impl Absence {
    pub(crate) fn status_line(self) -> &'static str {
        match self {
            Self::NotFound => "404 Not Found",
            Self::Forbidden => "403 Forbidden",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

impl From<Errno> for Absence {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EACCES | Errno::EPERM => Self::Forbidden,
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ENAMETOOLONG
            // A path with a NUL in it.
            | Errno::EINVAL
            // A path that leads out of the root, or in circles.
            | Errno::EXDEV
            | Errno::ELOOP
            // A socket, or a device without a driver.
            | Errno::ENXIO
            | Errno::ENODEV => Self::NotFound,
            _ => Self::Unavailable,
        }
    }
}

impl From<io::Error> for Absence {
    fn from(error: io::Error) -> Self {
        Errno::from_raw(error.raw_os_error().unwrap_or(0)).into()
    }
}

/// The files below a root. Those asked for last are held.
#[derive(Debug)]
pub(crate) struct Files {
    root: OwnedFd,
    held: LruCache<Box<str>, Held>,
}

#[derive(Debug)]
struct Held {
    resource: Arc<Resource>,
    looked_at: Instant,
}

impl Files {
    /// # Errors
    /// [`ServerError::Root`] when it is no directory, or may not be read.
    pub(crate) fn below(root: &Path) -> Result<Self, ServerError> {
        let open = || {
            let directory = File::open(root)?;
            if !directory.metadata()?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            // Fails here, rather than at every request, where openat2 is not allowed or a
            // directory may be read but not entered.
            openat2(&directory, ".", how())?;
            Ok(OwnedFd::from(directory))
        };
        let root = open().map_err(|source| ServerError::Root { path: root.to_owned(), source })?;
        Ok(Self { root, held: LruCache::new(held_max()) })
    }

    /// The file that a request target names.
    pub(crate) fn find(&mut self, target: &str, now: Instant) -> Result<Arc<Resource>, Absence> {
        let name = without_query(target);
        if let Some(held) = self.held.get(name)
            && now.saturating_duration_since(held.looked_at) < TRUSTED_FOR
        {
            return Ok(Arc::clone(&held.resource));
        }
        match self.look(name, now) {
            // Without a descriptor to look with, what was there a second ago is as good as any.
            Err(Absence::Unavailable) if self.held.contains(name) => self.trust(name, now),
            Err(absence) => {
                self.held.pop(name);
                Err(absence)
            }
            found => found,
        }
    }

    /// Looks at what a path names now.
    fn look(&mut self, name: &str, now: Instant) -> Result<Arc<Resource>, Absence> {
        let path = relative(name).ok_or(Absence::NotFound)?;
        let opened = match self.open(path.clone()) {
            Err(Errno::EMFILE) if !self.held.contains(name) && self.held.pop_lru().is_some() => {
                self.open(path)
            }
            opened => opened,
        };
        let (file, metadata, path) = opened?;
        let version = Version::of(&metadata);
        if self.held.peek(name).is_some_and(|held| held.resource.is(version)) {
            return self.trust(name, now);
        }
        let resource = Arc::new(Resource::load(file, &metadata, &path)?);
        self.held.put(name.into(), Held { resource: Arc::clone(&resource), looked_at: now });
        Ok(resource)
    }

    fn trust(&mut self, name: &str, now: Instant) -> Result<Arc<Resource>, Absence> {
        let held = self.held.get_mut(name).ok_or(Absence::Unavailable)?;
        held.looked_at = now;
        Ok(Arc::clone(&held.resource))
    }

    /// Opens a regular file below the root, and says which it came to.
    fn open(&self, mut path: PathBuf) -> Result<(File, Metadata, PathBuf), Errno> {
        let (mut file, mut metadata) = self.open_any(&path)?;
        if metadata.is_dir() {
            path.push(INDEX);
            (file, metadata) = self.open_any(&path)?;
        }
        if metadata.is_file() { Ok((file, metadata, path)) } else { Err(Errno::ENOENT) }
    }

    fn open_any(&self, path: &Path) -> Result<(File, Metadata), Errno> {
        let file = File::from(openat2(&self.root, path, how())?);
        let metadata =
            file.metadata().map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
        Ok((file, metadata))
    }
}

fn held_max() -> NonZeroUsize {
    // Without an answer, as with the limit that most processes have.
    let (descriptors, _) = getrlimit(Limit::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let share = usize::try_from(descriptors / DESCRIPTORS_SHARE).unwrap_or(HELD_MAX);
    NonZeroUsize::new(share.min(HELD_MAX)).unwrap_or(NonZeroUsize::MIN)
}

/// The kernel keeps the path below the root, at every `..` and every link on the way: whoever looks
/// first and opens then can be overtaken by a rename.
fn how() -> OpenHow {
    OpenHow::new()
        // Not blocking: a FIFO without a writer would keep the server waiting.
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS)
}

fn without_query(target: &str) -> &str {
    target.split_once('?').map_or(target, |(name, _)| name)
}

/// The path below the root that a request target means: decoded, and relative. Both forms of a
/// target that name a path are understood (RFC 9112, 3.2.1 and 3.2.2).
fn relative(name: &str) -> Option<PathBuf> {
    let path = if name.starts_with('/') {
        name
    } else {
        let (_, rest) = name.split_once("://")?;
        rest.find('/').map_or("/", |start| &rest[start..])
    };
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    let start = decoded.iter().take_while(|&&byte| byte == b'/').count();
    // The root itself has no name; the dot gives it one.
    Some(Path::new(".").join(OsStr::from_bytes(&decoded[start..])))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::resource::{Contents, IN_MEMORY_MAX_BYTES};

    fn text(found: Result<Arc<Resource>, Absence>) -> Result<String, Absence> {
        found.map(|resource| match &resource.contents {
            Contents::InMemory(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Contents::OnDisk(_, length) => format!("{length} bytes"),
        })
    }

    #[test]
    fn targets_become_paths() {
        for (target, path) in [
            ("/", "./"),
            ("/a%20b/c", "./a b/c"),
            ("//a", "./a"),
            ("/%2Fetc", "./etc"),
            ("/%zz", "./%zz"),
            ("http://host:80/a", "./a"),
            ("http://host", "./"),
        ] {
            assert_eq!(relative(target), Some(PathBuf::from(path)), "{target}");
        }
        assert_eq!(relative("host:80"), None);
        assert_eq!(without_query("/a?b?c"), "/a");
    }

    #[test]
    fn a_held_file_is_looked_at_again_in_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, "old").unwrap();
        let mut files = Files::below(root.path()).unwrap();
        let start = Instant::now();
        assert_eq!(text(files.find("/a", start)).unwrap(), "old");
        fs::write(&path, "newer").unwrap();
        assert_eq!(text(files.find("/a", start)).unwrap(), "old");
        assert_eq!(text(files.find("/a", start + TRUSTED_FOR)).unwrap(), "newer");
        fs::remove_file(&path).unwrap();
        assert_eq!(text(files.find("/a", start + TRUSTED_FOR * 2)), Err(Absence::NotFound));
        assert!(files.held.is_empty());
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "words").unwrap();
        let mut files = Files::below(root.path()).unwrap();
        let start = Instant::now();
        let first = files.find("/a", start).unwrap();
        let second = files.find("/a?again", start + TRUSTED_FOR).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let large = vec![0; IN_MEMORY_MAX_BYTES as usize + 1];
        let mut files = Files::below(root.path()).unwrap();
        for name in 0..HELD_MAX + 10 {
            fs::write(root.path().join(name.to_string()), &large).unwrap();
            let found = text(files.find(&format!("/{name}"), Instant::now()));
            assert_eq!(found.unwrap(), format!("{} bytes", large.len()));
        }
        assert!(files.held.len() <= HELD_MAX);
        assert_eq!(files.held.len(), held_max().get());
    }

    #[test]
    fn only_regular_files_are_found() {
        let root = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
        nix::unistd::mkfifo(&root.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(root.path().join("empty")).unwrap();
        fs::write(root.path().join("a"), "").unwrap();
        let mut files = Files::below(root.path()).unwrap();
        for target in ["/socket", "/fifo", "/empty", "/", "/a/", "/a/b", "/a%00", "*"] {
            assert_eq!(
                text(files.find(target, Instant::now())),
                Err(Absence::NotFound),
                "{target}"
            );
        }
    }

    #[test]
    fn errors_are_told_apart() {
        assert_eq!(Absence::from(Errno::EACCES), Absence::Forbidden);
        assert_eq!(Absence::from(Errno::EXDEV), Absence::NotFound);
        assert_eq!(Absence::from(Errno::EMFILE), Absence::Unavailable);
        assert_eq!(Absence::from(io::Error::from(io::ErrorKind::Other)), Absence::Unavailable);
    }
}
