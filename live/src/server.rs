// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server under load, ours or another's, on its own processor.

mod settings;
mod statistics;

use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_lab::{Child, Namespace, family, is_installed, pin_command};
use tidegate_scenarios::{Computed, Page, Server, ServerKind};
use tidegate_servers::{COMPUTED_MAX_US, Statistics};

use crate::error::LiveError;
use crate::ground::{Ground, PORT};
use crate::programs::Programs;

const START_PATIENCE: Duration = Duration::from_secs(10);
/// A connection is a descriptor. Others' servers take what they are given, and most shells give 1,024: nginx
/// then accepts nobody for half a second at a time. Ours take what they may have at most, which is less on
/// some hosts. More than any of them is told to serve at once, where the host allows as many.
const DESCRIPTORS: u64 = 65_536;
/// In the server's own `/run`: it ends with the namespace.
const FOLDER: &str = "/run/tidelab-server";
const STATISTICS: &str = "/run/tidelab-server/statistics";

// Else it would answer that the request is malformed.
const _: () = assert!(Computed::COST_MAX_US <= COMPUTED_MAX_US);

/// A server at work. Dropping it ends it.
pub(crate) struct Running {
    kind: ServerKind,
    namespace: Namespace,
    child: Child,
}

impl Running {
    /// Starts it, ours with so many steps of work a µs of cost, and returns when it listens.
    pub(crate) fn start(
        ground: &Ground,
        programs: &Programs,
        server: &Server,
        steps_per_us: NonZeroU64,
    ) -> Result<Self, LiveError> {
        place_pages(&ground.server, server.page)?;
        // Of this process, and so of all that it starts: one curve's server would else have fewer than the next's.
        tidegate_crowd::allow_descriptors(DESCRIPTORS);
        let child = if server.kind.is_ours() {
            start_ours(ground, programs, server, steps_per_us)?
        } else {
            start_other(ground, server)?
        };
        Ok(Self { kind: server.kind, namespace: ground.server.clone(), child })
    }

    /// What it has counted of itself so far; others than ours do not tell.
    pub(crate) fn statistics(
        &mut self,
        earlier: Option<&Statistics>,
    ) -> Result<Option<Statistics>, LiveError> {
        if !self.kind.is_ours() {
            return Ok(None);
        }
        let told = statistics::ask(&self.namespace, &self.child, STATISTICS, earlier);
        if told.is_err() {
            // Who has ended does not answer: how it ended is why.
            self.check()?;
        }
        told.map(Some)
    }

    /// All of it.
    pub(crate) fn processes(&self) -> Vec<i32> {
        family(self.child.id().cast_signed())
    }

    /// Says whether it still stands: a server that died has measured nothing.
    pub(crate) fn check(&mut self) -> Result<(), LiveError> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(LiveError::Ended {
                program: self.kind.name().to_owned(),
                reason: format!("it ended during the run ({status})"),
            }),
            _ => Ok(()),
        }
    }
}

fn place_pages(namespace: &Namespace, page: Page) -> Result<(), LiveError> {
    let root = Path::new(FOLDER).join("www");
    namespace.place_file(root.join("index.html"), vec![b'~'; Page::ONE_PACKET_BYTES])?;
    if page == Page::Specweb99 {
        for file in tidegate_client::specweb99::files() {
            let content = vec![b'~'; file.bytes];
            namespace.place_file(root.join(file.path.trim_start_matches('/')), content)?;
        }
    }
    Ok(())
}

fn start_ours(
    ground: &Ground,
    programs: &Programs,
    server: &Server,
    steps_per_us: NonZeroU64,
) -> Result<Child, LiveError> {
    let mut command = Command::new(&programs.tidelab);
    command.args([
        "serve",
        &format!("--server={}", server.kind.name()),
        &format!("--port={PORT}"),
        &format!("--backlog={}", server.backlog),
        &format!("--cost-us={}", server.cost_us),
        &format!("--steps-per-us={steps_per_us}"),
        &format!("--accept-limit={}", server.accept_limit),
        &match server.page {
            // From memory, as both theses have it.
            Page::OnePacket => format!("--body-bytes={}", Page::ONE_PACKET_BYTES),
            Page::Specweb99 => format!("--root={FOLDER}/www"),
        },
        &format!("--statistics={STATISTICS}"),
    ]);
    match server.kind {
        ServerKind::Userver => command.arg(format!("--events={}", server.events.name())),
        ServerKind::KnotC | ServerKind::KnotA => {
            command.arg(format!("--threads={}", server.threads))
        }
        _ => &mut command,
    };
    pin_command(&mut command, ground.server_cpu)?;
    let name = server.kind.name();
    Ok(ground.server.start(name, command, "listening on ", START_PATIENCE)?)
}

fn start_other(ground: &Ground, server: &Server) -> Result<Child, LiveError> {
    let kind = server.kind;
    let configuration = Path::new(FOLDER).join("server.conf");
    ground.server.place_file(&configuration, settings::of(server))?;
    let line = match kind {
        ServerKind::Nginx => {
            format!("nginx -p {FOLDER} -c {FOLDER}/server.conf -e {FOLDER}/errors")
        }
        // One process, many threads: a process of its own would outlive a killed run.
        ServerKind::Apache2 => format!("apache2 -X -f {FOLDER}/server.conf"),
        ServerKind::Lighttpd => format!("lighttpd -D -f {FOLDER}/server.conf"),
        _ => format!("haproxy -db -f {FOLDER}/server.conf"),
    };
    let mut command = ground.server.command(&line);
    require(kind, &command)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    pin_command(&mut command, ground.server_cpu)?;
    let mut child = ground.server.spawn(command)?;
    wait_until_it_listens(&ground.server, kind.name(), &mut child)?;
    Ok(child)
}

/// Servers live in `/usr/sbin`, which an ordinary path lacks.
fn require(kind: ServerKind, command: &Command) -> Result<(), LiveError> {
    if is_installed(command.get_program()) {
        return Ok(());
    }
    let package = match kind {
        ServerKind::Nginx => "nginx-light",
        other => other.name(),
    };
    Err(LiveError::NoServer { program: kind.name(), package })
}

/// Looks at the kernel's table, since a connection would count as one.
fn wait_until_it_listens(
    namespace: &Namespace,
    name: &str,
    child: &mut Child,
) -> Result<(), LiveError> {
    let listening = format!(":{PORT:04X} ");
    let not_started = |reason: String| LiveError::NotStarted { program: name.to_owned(), reason };
    let deadline = Instant::now() + START_PATIENCE;
    while Instant::now() < deadline {
        for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
            let table = namespace.read_file(table)?;
            // The columns are: number, local address, remote address, state; 0A is LISTEN.
            let listens =
                table.lines().any(|line| line.contains(&listening) && line.contains(" 0A "));
            if listens {
                return Ok(());
            }
        }
        if let Ok(Some(status)) = child.try_wait() {
            let mut said = String::new();
            if let Some(mut pipe) = child.take_stderr() {
                let _ = std::io::Read::read_to_string(&mut pipe, &mut said);
            }
            let said = said.lines().last().unwrap_or_default().to_owned();
            return Err(not_started(format!("{status}: {said}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(not_started(format!("it did not listen within {START_PATIENCE:?}")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Mutex, PoisonError};

    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::signal::Signal;
    use tidegate_lab::{skip_without, skip_without_root};
    use tidegate_scenarios::{Network, Scenario};

    use super::*;

    /// The limit is this process's, and so is shared by its tests.
    static LIMIT: Mutex<()> = Mutex::new(());

    /// The server of a scenario's only curve.
    fn server(kind: &str) -> Server {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\n[server]\nkind = \"{kind}\"\n[load]\noffered = [1]\n\
             [[curve]]\nname = \"c\"\npeer = \"kernel\""
        );
        Scenario::parse("t", "t.toml", &text).unwrap().settings.remove(0).server
    }

    /// So many descriptors a process of ours is allowed.
    fn descriptors(process: u32) -> u64 {
        let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
        let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        soft.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Starts a server after a shell that allows few descriptors: the process that is named then may have as many as
    /// we give, or as many as this host's root, who in some containers may have no more than it was given.
    fn started_where_few_are_allowed(
        kind: &str,
        named: impl FnOnce(&Result<Running, LiveError>) -> u32,
    ) {
        let _alone = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 1024, hard).unwrap();
        let ground = Ground::lay(Network::Direct).unwrap();
        let programs = Programs { tidelab: "/bin/false".into(), tidegate: "/bin/false".into() };
        let started = Running::start(&ground, &programs, &server(kind), NonZeroU64::MIN);
        let allowed = descriptors(named(&started));
        assert!(allowed >= DESCRIPTORS.min(hard), "{allowed} of {hard}");
    }

    #[test]
    fn nginx_may_serve_as_many_as_it_is_told_to_whatever_the_shell_allows() {
        const TEST: &str = "nginx_may_serve_as_many_as_it_is_told_to_whatever_the_shell_allows";
        if skip_without(TEST, &[("nginx", "nginx-light")]) {
            return;
        }
        started_where_few_are_allowed("nginx", |nginx| nginx.as_ref().unwrap().child.id());
    }

    /// It takes them from this process, whether or not it comes to listen.
    #[test]
    fn a_server_of_ours_may_serve_as_many_as_anothers() {
        if skip_without_root("a_server_of_ours_may_serve_as_many_as_anothers") {
            return;
        }
        started_where_few_are_allowed("userver", |userver| {
            assert!(userver.is_err(), "/bin/false serves");
            std::process::id()
        });
    }

    /// Before it is asked, or while it is waited for: `sleep` ends by the signal that asks.
    #[test]
    fn a_server_that_has_ended_is_not_waited_for_and_how_is_told() {
        if skip_without_root("a_server_that_has_ended_is_not_waited_for_and_how_is_told") {
            return;
        }
        for (before, ended_by) in [(Some(Signal::SIGKILL), "SIGKILL"), (None, "SIGUSR1")] {
            let namespace = Namespace::new("server").unwrap();
            let child = namespace.spawn(namespace.command("sleep 60")).unwrap();
            if let Some(signal) = before {
                child.signal(signal).unwrap();
            }
            let mut server = Running { kind: ServerKind::Userver, namespace, child };
            let begun = Instant::now();
            let told = server.statistics(None).unwrap_err().to_string();
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            assert!(told.contains("userver failed") && told.contains(ended_by), "{told}");
        }
    }
}
