// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One daemon of a kind in a network namespace: a locked file that holds its process number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidegate_datapath::again;
use tidegate_datapath::pins::namespace_name;

use crate::failure::{Failure, Result};

const FOLDER: &str = "/run/tidegate";
/// Whoever may open a file may lock it, whether it may write there or not (flock(2)): nobody else may.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Who asks whether one runs has the lock for a moment.
const CLAIM_TRIES: u32 = 20;
const CLAIM_AGAIN: Duration = Duration::from_millis(5);
/// A daemon has written its number this long after it had the lock, on a busy machine, too.
const NAMED_WITHIN: Duration = Duration::from_millis(20);
/// A daemon that was asked to stop has this long.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// What a daemon is for. Each has its own file, so that both may run on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `tidegate run`.
    Guard,
    /// `tidegate agent`.
    Agent,
}

impl Role {
    /// What comes before the namespace in the file's name.
    fn prefix(self) -> &'static str {
        match self {
            Role::Guard => "",
            Role::Agent => "agent-",
        }
    }

    /// (`tidegate stop` would end both.)
    fn runs_already(self, process: i32) -> Failure {
        let (what, unit) = match self {
            Role::Guard => ("tidegate", "tidegate"),
            Role::Agent => ("an agent", "tidegate-agent"),
        };
        Failure::argument(
            format!("{what} runs here already (process {process})"),
            format!(
                "change its configuration and send it SIGHUP, or end it first by SIGTERM or \
                 `systemctl stop {unit}`"
            ),
        )
    }

    /// Of who has the lock and no number: one that stops it, or who begins right now.
    fn is_busy(self) -> Failure {
        let what = match self {
            Role::Guard => "a guard",
            Role::Agent => "an agent",
        };
        Failure::argument(
            format!("{what} is being taken down here, or starts"),
            "try again in a moment",
        )
    }
}

/// The claim of the running daemon, or of who takes down what one left; given up when the process ends, however it
/// ends.
pub struct Instance {
    lock: Flock<File>,
    path: PathBuf,
}

fn path(role: Role) -> Result<PathBuf> {
    Ok(PathBuf::from(FOLDER).join(format!("{}{}.pid", role.prefix(), namespace_name()?)))
}

fn file_failure(path: &Path) -> impl FnOnce(std::io::Error) -> Failure + '_ {
    move |source| {
        let fix = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room for it",
            _ => "make the folder writable",
        };
        let fix = format!("tidegate keeps its process number there; {fix}");
        Failure::File { path: path.to_owned(), source, fix }
    }
}

/// A process number, which is one of a PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    /// The namespace's inode; older daemons do not tell it.
    namespace: Option<u64>,
}

/// The inode of this process's PID namespace, where /proc shows it.
fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|namespace| namespace.ino())
}

impl Process {
    fn this() -> Self {
        Process { pid: std::process::id().cast_signed(), namespace: pid_namespace() }
    }

    /// The one that a daemon's file names in its first line.
    fn of(text: &str) -> Option<Self> {
        let mut words = text.lines().next()?.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        Some(Process { pid, namespace: words.next().and_then(|inode| inode.parse().ok()) })
    }

    /// That line.
    fn line(self) -> String {
        let namespace = self.namespace.map_or(String::new(), |inode| format!(" {inode}"));
        format!("{}{namespace}\n", self.pid)
    }

    /// Whether its number is another process's, or nobody's, in the PID namespace `here`.
    fn is_elsewhere(self, here: Option<u64>) -> bool {
        matches!((self.namespace, here), (Some(its), Some(here)) if its != here)
    }
}

/// Whether it has another mode. To set one takes the owner, even where it is set already.
fn is_other(found: &fs::Metadata, mode: u32) -> bool {
    found.permissions().mode() & 0o777 != mode
}

/// Opens a daemon's file, in a folder that may go at any moment here.
fn open_once(path: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(path);
    // What it is in is others', too.
    folder.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    if is_other(&fs::metadata(folder)?, FOLDER_MODE) {
        fs::set_permissions(folder, fs::Permissions::from_mode(FOLDER_MODE))?;
    }
    let mut how = OpenOptions::new();
    let file =
        how.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
    if is_other(&file.metadata()?, FILE_MODE) {
        file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// The same, until nobody who ends right now removes the folder meanwhile.
fn open(path: &Path) -> io::Result<File> {
    let is_gone = |opened: &io::Result<File>| {
        let kind = opened.as_ref().err().map(io::Error::kind);
        matches!(kind, Some(ErrorKind::NotFound | ErrorKind::AlreadyExists))
    };
    again::while_in_the_way(is_gone, || open_once(path))
}

/// The lock of what was opened, unless another has it, or it has been removed since: whoever ends removes
/// its file first and then gives the lock up, and with that of a file that is gone nobody would be found.
fn locked(file: File) -> Option<Flock<File>> {
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?;
    lock.metadata().is_ok_and(|found| found.nlink() > 0).then_some(lock)
}

/// The lock of the file that is there, which may be another at each try; `None` where a daemon keeps it.
fn lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    for _ in 0..CLAIM_TRIES {
        if let Some(lock) = locked(open(path)?) {
            return Ok(Some(lock));
        }
        std::thread::sleep(CLAIM_AGAIN);
    }
    Ok(None)
}

impl Instance {
    /// Claims this namespace, or says which process has it.
    pub fn claim(role: Role) -> Result<Self> {
        Self::alone(role)?.says(&Process::this().line())
    }

    /// Keeps daemons from starting while what one left is taken down. It names no process: whoever asks for the
    /// daemon's would end this one.
    pub fn keep_out(role: Role) -> Result<Self> {
        Self::alone(role)?.says("")
    }

    fn alone(role: Role) -> Result<Self> {
        let path = path(role)?;
        match lock(&path).map_err(file_failure(&path))? {
            Some(lock) => Ok(Instance { lock, path }),
            None => Err(match running(role) {
                Ok(Some(process)) => role.runs_already(process),
                _ => role.is_busy(),
            }),
        }
    }

    /// With nothing but this in its file; given up where that cannot be written.
    fn says(mut self, text: &str) -> Result<Self> {
        match self.lock.set_len(0).and_then(|()| self.lock.write_all(text.as_bytes())) {
            Ok(()) => Ok(self),
            Err(e) => {
                let failure = file_failure(&self.path)(e);
                self.release();
                Err(failure)
            }
        }
    }

    /// Writes lines behind the process number, for those who ask after the daemon.
    pub fn note(&mut self, lines: &str) -> Result<()> {
        write!(self.lock, "{lines}").map_err(file_failure(&self.path))
    }

    /// Gives the claim up at a clean stop.
    pub fn release(self) {
        let _ = fs::remove_file(&self.path);
        // Gone only where no other namespace's daemon has its file there.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

/// A daemon's file, to read it; `None` only where none is there.
fn open_to_read(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Err(Failure::anothers()),
        Err(e) => Err(file_failure(path)(e)),
    }
}

/// What a file says of the daemon that runs; `None` where none does. It is read after the lock was found taken: one
/// that was killed leaves its number, and the lock alone tells it from the next one's.
fn text(path: &Path) -> Result<Option<String>> {
    let Some(file) = open_to_read(path)? else { return Ok(None) };
    let mut file = match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => return Ok(None),
        Err((file, _)) => file,
    };
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(file_failure(path))?;
    Ok(Some(text))
}

fn process(path: &Path) -> Result<Option<Process>> {
    Ok(text(path)?.and_then(|text| Process::of(&text)))
}

/// The process that has it, to be sent a signal: the lock is taken before the number is written, and in between stands
/// that of one that was killed, which may be a stranger's by now. `wait` is for as long as that may last.
fn settled(path: &Path, mut wait: impl FnMut()) -> Result<Option<Process>> {
    let mut before = text(path)?;
    while before.is_some() {
        wait();
        let now = text(path)?;
        if now == before {
            break;
        }
        before = now;
    }
    Ok(before.and_then(|text| Process::of(&text)))
}

/// The process number of the daemon that runs in this namespace.
pub fn running(role: Role) -> Result<Option<i32>> {
    Ok(process(&path(role)?)?.map(|process| process.pid))
}

/// The lines that it has noted.
pub fn noted(role: Role) -> Result<Vec<String>> {
    let text = text(&path(role)?)?.unwrap_or_default();
    Ok(text.lines().skip(1).map(str::to_owned).collect())
}

/// Ends the daemon of this namespace and waits for it. `false`: none ran.
pub fn stop(role: Role) -> Result<bool> {
    let path = path(role)?;
    let is_named = || std::thread::sleep(NAMED_WITHIN);
    let Some(process) = settled(&path, is_named)? else { return Ok(false) };
    let pid = process.pid;
    if process.is_elsewhere(pid_namespace()) {
        return Err(Failure::argument(
            format!("the daemon that runs here is process {pid} of another PID namespace"),
            "run `tidegate stop` in that one, as in the container where it was started",
        ));
    }
    match kill(Pid::from_raw(pid), Signal::SIGTERM) {
        // It ends as we ask.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(e) => {
            return Err(Failure::argument(
                format!("cannot end process {pid}: {e}"),
                "run as the user that started it",
            ));
        }
    }
    let deadline = Instant::now() + STOP_WITHIN;
    // Until another's stands there, too.
    while self::process(&path)? == Some(process) {
        if Instant::now() > deadline {
            return Err(Failure::argument(
                format!("process {pid} did not end within {} s", STOP_WITHIN.as_secs()),
                "look at what it does, then end it with kill -9 and run `tidegate stop` again",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

/// Removes what a daemon left that was killed; one that runs keeps its file, and is found.
pub fn forget(role: Role) -> Result<()> {
    forget_file(path(role)?);
    Ok(())
}

fn forget_file(path: PathBuf) {
    if let Ok(Some(lock)) = lock(&path) {
        Instance { lock, path }.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn root(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("tidegate-instance-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        root
    }

    /// A lock on it says that a daemon runs, and its text which.
    #[test]
    fn the_file_is_nobody_elses_to_open_whatever_made_it_first() {
        let root = root("modes");
        let folder = root.join("tidegate");
        let path = folder.join("net-1.pid");
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, "").unwrap();
        open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        fs::remove_dir_all(&root).unwrap();
    }

    /// A container may begin without a /run.
    #[test]
    fn what_the_folder_is_in_is_made_as_any_folder() {
        let root = root("parents");
        let (usual, parent) = (root.join("usual"), root.join("run"));
        let path = parent.join("tidegate").join("net-1.pid");
        fs::create_dir(&usual).unwrap();
        open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&parent), mode(&usual));
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_claim_that_cannot_be_written_leaves_nothing() {
        let root = root("unwritten");
        let path = root.join("tidegate").join("net-1.pid");
        drop(open(&path).unwrap());
        let lock = locked(File::open(&path).unwrap()).unwrap();
        let instance = Instance { lock, path: path.clone() };
        assert!(instance.says("1\n").is_err(), "opened to be read");
        assert!(!path.exists() && !path.parent().unwrap().exists());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn who_has_no_room_is_not_told_to_make_a_folder_writable() {
        let told =
            |errno: Errno| file_failure(Path::new("/run/tidegate"))(errno.into()).to_string();
        for (errno, fix) in [
            (Errno::ENOSPC, "; make room for it"),
            (Errno::EDQUOT, "; make room for it"),
            (Errno::EROFS, "; make the folder writable"),
        ] {
            assert!(told(errno).ends_with(fix), "{}", told(errno));
        }
    }

    /// It may be another user's, with what is needed to write there all the same.
    #[test]
    fn a_mode_that_is_right_is_not_set_again() {
        let root = root("right");
        let path = root.join("tidegate").join("net-1.pid");
        let changed = || {
            open(&path).unwrap();
            [path.as_path(), path.parent().unwrap()].map(|path| {
                let found = fs::metadata(path).unwrap();
                (found.ctime(), found.ctime_nsec())
            })
        };
        let before = changed();
        // The clock of file systems may stand still for a tick.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(changed(), before);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_process_number_says_nothing_in_another_pid_namespace() {
        let this = Process::this();
        assert_eq!(Process::of(&this.line()), Some(this));
        assert!(this.namespace.is_some() && !this.is_elsewhere(pid_namespace()));
        let its = Process { pid: 7, namespace: Some(4_026_531_836) };
        assert_eq!(Process::of("7 4026531836\navoided 12\n"), Some(its));
        assert!(its.is_elsewhere(Some(1)) && !its.is_elsewhere(None));
        let older = Process { pid: 7, namespace: None };
        assert_eq!(Process::of("7\navoided 12\n"), Some(older));
        assert!(!older.is_elsewhere(Some(1)));
        // Claimed, and not written yet.
        assert_eq!(Process::of(""), None);
    }

    /// One that was killed leaves its number, which may be a stranger's by the time that the next has the lock.
    #[test]
    fn who_is_to_be_ended_has_the_lock_and_has_said_so() {
        let root = root("settled");
        let path = root.join("net-1.pid");
        let ended = Process { pid: 7, namespace: None };
        let runs = Process { pid: 8, namespace: None };
        fs::write(&path, ended.line()).unwrap();
        assert_eq!(settled(&path, || panic!("it is dead")).unwrap(), None);
        let line = runs.line();
        for said in [vec![line.as_str()], vec!["", &line]] {
            fs::write(&path, ended.line()).unwrap();
            let mut next =
                Some(Instance { lock: lock(&path).unwrap().unwrap(), path: path.clone() });
            let mut said = said.iter();
            let wait = || {
                if let Some(text) = said.next() {
                    next = next.take().map(|next| next.says(text).unwrap());
                }
            };
            assert_eq!(settled(&path, wait).unwrap(), Some(runs));
        }
        fs::remove_dir_all(&root).unwrap();
    }

    /// `tidegate stop` hears no signals: another would end it half-way.
    #[test]
    fn who_takes_a_guard_down_is_not_taken_for_its_daemon() {
        let root = root("keeping-out");
        let path = root.join("tidegate").join("net-1.pid");
        open(&path).unwrap().write_all(b"7\n").unwrap();
        let stopping = Instance { lock: lock(&path).unwrap().unwrap(), path: path.clone() };
        let stopping = stopping.says("").unwrap();
        assert_eq!((process(&path).unwrap(), settled(&path, || ()).unwrap()), (None, None));
        assert!(lock(&path).unwrap().is_none(), "and no other daemon starts");
        stopping.release();
        fs::remove_dir_all(&root).unwrap();
    }

    /// As a daemon claims it, but for longer: who gives it up may be off its processor for a while.
    fn claimed(path: &Path) -> Option<Flock<File>> {
        (0..20).find_map(|_| lock(path).unwrap())
    }

    #[test]
    fn who_asks_for_a_moment_keeps_nobody_from_claiming() {
        let root = root("asked");
        let path = root.join("net-1.pid");
        let asking = Flock::lock(open(&path).unwrap(), FlockArg::LockShared).unwrap();
        thread::scope(|scope| {
            let claim = scope.spawn(|| claimed(&path).is_some());
            thread::sleep(CLAIM_AGAIN * 2);
            drop(asking);
            assert!(claim.join().unwrap());
        });
        let running = Flock::lock(open(&path).unwrap(), FlockArg::LockExclusive).unwrap();
        assert!(lock(&path).unwrap().is_none());
        drop(running);
        fs::remove_dir_all(&root).unwrap();
    }

    /// A daemon that ends removes its file while another waits for the lock.
    #[test]
    fn what_is_claimed_is_the_file_that_others_find() {
        let root = root("claimed");
        let path = root.join("tidegate").join("net-1.pid");
        let opened = open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(locked(opened).is_none(), "nobody would find it");
        let ending = Instance { lock: lock(&path).unwrap().unwrap(), path: path.clone() };
        thread::scope(|scope| {
            let claim = scope.spawn(|| claimed(&path));
            thread::sleep(CLAIM_AGAIN * 2);
            ending.release();
            let claimed = claim.join().unwrap();
            assert!(claimed.is_some() && lock(&path).unwrap().is_none(), "and nobody beside");
        });
        fs::remove_dir_all(&root).unwrap();
    }

    /// An agent may start while `tidegate stop` removes what another has left.
    #[test]
    fn the_file_of_a_daemon_that_runs_is_not_forgotten() {
        let root = root("forgotten");
        let path = root.join("tidegate").join("agent-net-1.pid");
        let running = lock(&path).unwrap().unwrap();
        forget_file(path.clone());
        assert!(path.exists());
        drop(running);
        forget_file(path.clone());
        assert!(!path.exists());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_nobody() {
        let root = root("unread");
        assert!(open_to_read(&root.join("net-1.pid")).unwrap().is_none());
        let no_folder = root.join("file");
        fs::write(&no_folder, "").unwrap();
        assert!(open_to_read(&no_folder.join("net-1.pid")).is_err());
        fs::remove_dir_all(&root).unwrap();
    }

    /// Works for so long: who sleeps is away for longer.
    fn spin(how_long: Duration) {
        let began = Instant::now();
        while began.elapsed() < how_long {
            std::hint::spin_loop();
        }
    }

    /// How often who tries once finds the folder gone, before it is enough.
    const MEETINGS: u32 = 10;

    /// `tidegate stop` claims what a daemon that it has ended is giving up.
    #[test]
    fn a_folder_that_goes_at_any_moment_keeps_nobody_from_claiming() {
        let root = root("going");
        let folder = root.join("tidegate");
        let path = folder.join("net-1.pid");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let _ = fs::create_dir(&folder);
                    spin(Duration::from_micros(20));
                    let _ = fs::remove_dir(&folder);
                    // A daemon that begins and ends does more than that.
                    spin(Duration::from_micros(20));
                }
            });
            let (mut met, mut failures) = (0, Vec::new());
            let began = Instant::now();
            while met < MEETINGS && began.elapsed() < Duration::from_secs(60) {
                met += u32::from(open_once(&path).is_err());
                // Where it stays, the folder does.
                let _ = fs::remove_file(&path);
                failures.extend(open(&path).err());
                let _ = fs::remove_file(&path);
            }
            ended.store(true, Ordering::Relaxed);
            assert!(failures.is_empty(), "{} such as {}", failures.len(), failures[0]);
            assert_eq!(met, MEETINGS, "who tries once meets it");
        });
        fs::remove_dir_all(&root).unwrap();
    }
}
