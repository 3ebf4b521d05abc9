// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server under load.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::curve::{Peer, Treatment};
use crate::pages::Computed;

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// Ours, event-driven (Shukla 3.1.1, Pariag 3.1.1).
    #[default]
    Userver,
    /// Ours, a connection a thread, a fixed pool of them (Pariag 3.1.2).
    KnotC,
    /// Ours, one acceptor and a new thread for each connection (Pariag 3.1.2).
    KnotA,
    /// Ours, accepting and working in turn with no event call between (Pariag 3.1.3).
    Tux,
    /// nginx, one worker.
    Nginx,
    /// Apache httpd, event workers.
    Apache2,
    /// lighttpd.
    Lighttpd,
    /// haproxy, answering by itself.
    Haproxy,
}

impl ServerKind {
    /// Whether it is one of our own, whose ways can be set.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Userver | Self::KnotC | Self::KnotA | Self::Tux)
    }

    /// As scenarios spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Userver => "userver",
            Self::KnotC => "knot-c",
            Self::KnotA => "knot-a",
            Self::Tux => "tux",
            Self::Nginx => "nginx",
            Self::Apache2 => "apache2",
            Self::Lighttpd => "lighttpd",
            Self::Haproxy => "haproxy",
        }
    }
}

/// How many connections are accepted before others are worked on (Pariag 3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptLimit {
    /// At most so many.
    At(u32),
    /// Until the listen queue is empty (Accept-Inf).
    Inf,
    /// As the lengths of both queues and the last work phase suggest (Pariag 6).
    Dynamic,
}

/// How `userver` learns what there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Events {
    /// select(2), as both theses have it.
    Select,
    /// poll(2).
    Poll,
    /// epoll(7).
    #[default]
    Epoll,
    /// io_uring(7).
    #[serde(rename = "io_uring")]
    IoUring,
}

impl Events {
    /// As scenarios spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Poll => "poll",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// What clients ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Page {
    /// A reply that fits one packet with its headers (Shukla 3.2.1).
    #[default]
    OnePacket,
    /// The SPECweb99-like file set: 36 files in 4 classes, about 15 KB in the mean (Shukla 3.2.2).
    Specweb99,
}

/// A server, resolved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    /// Which.
    pub kind: ServerKind,
    /// Length of its listen queue.
    pub backlog: u32,
    /// Of our own servers.
    pub accept_limit: AcceptLimit,
    /// Of `userver`.
    pub events: Events,
    /// Threads of a Knot: as many as `knot-c` has, and at most as many as `knot-a` begins. On as many
    /// connections it works at once.
    pub threads: u32,
    /// nginx's `multi_accept`: whether it empties the listen queue at every wake-up.
    pub multi_accept: bool,
    /// Processor time per request beside the serving itself, in µs; of our own servers.
    pub cost_us: u64,
    /// What it serves.
    pub page: Page,
    /// What it computes besides; of our own servers.
    pub computed: Computed,
    /// Connections that it holds in TIME-WAIT before the load begins (Faber 5.1).
    pub time_waits: u32,
}

impl Page {
    /// With its header a reply of so many bytes fits one packet (Shukla 3.2.1).
    pub const ONE_PACKET_BYTES: usize = 1024;
}

/// More do not come about in a minute.
const TIME_WAITS_MAX: u32 = 2_000_000;
/// For more our servers would need more mappings than the kernel lets a process have
/// (`vm.max_map_count`, 65,530).
const THREADS_MAX: u32 = 16_000;
/// As long a listen queue as the kernel allows.
const LARGE_BACKLOG: u32 = 65_535;

impl Default for Server {
    fn default() -> Self {
        Self {
            kind: ServerKind::Userver,
            backlog: 128,
            accept_limit: AcceptLimit::Inf,
            events: Events::default(),
            threads: 1000,
            multi_accept: false,
            cost_us: 0,
            page: Page::OnePacket,
            computed: Computed::default(),
            time_waits: 0,
        }
    }
}

/// What a file says of a server; what it leaves out stays as it was.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerKeys {
    kind: Option<ServerKind>,
    backlog: Option<u32>,
    accept_limit: Option<AcceptLimit>,
    events: Option<Events>,
    threads: Option<u32>,
    multi_accept: Option<bool>,
    cost_us: Option<u64>,
    page: Option<Page>,
    computed: Option<Computed>,
    time_waits: Option<u32>,
}

impl ServerKeys {
    pub(crate) fn over(&self, base: &Server) -> Server {
        Server {
            kind: self.kind.unwrap_or(base.kind),
            backlog: self.backlog.unwrap_or(base.backlog),
            accept_limit: self.accept_limit.unwrap_or(base.accept_limit),
            events: self.events.unwrap_or(base.events),
            threads: self.threads.unwrap_or(base.threads),
            multi_accept: self.multi_accept.unwrap_or(base.multi_accept),
            cost_us: self.cost_us.unwrap_or(base.cost_us),
            page: self.page.unwrap_or(base.page),
            computed: self.computed.unwrap_or(base.computed),
            time_waits: self.time_waits.unwrap_or(base.time_waits),
        }
    }
}

impl Server {
    /// In a few words, as results name it.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut words = format!("{}, backlog {}", self.kind.name(), self.backlog);
        match self.kind {
            ServerKind::Userver => words.push_str(&format!(", {}", self.events.name())),
            ServerKind::KnotC => words.push_str(&format!(", {} threads", self.threads)),
            ServerKind::KnotA if self.threads != Self::default().threads => {
                words.push_str(&format!(", at most {} threads", self.threads));
            }
            ServerKind::Nginx if self.multi_accept => words.push_str(", multi_accept"),
            _ => {}
        }
        if self.accept_limit != AcceptLimit::Inf {
            words.push_str(&format!(", accept-limit {}", self.accept_limit));
        }
        if self.cost_us > 0 {
            words.push_str(&format!(", {} µs a request", self.cost_us));
        }
        words.push_str(match self.page {
            Page::OnePacket => ", one packet",
            Page::Specweb99 => ", SPECweb99-like files",
        });
        if let Some(computed) = self.computed.name() {
            words.push_str(&format!(", {computed}"));
        }
        if self.time_waits > 0 {
            words.push_str(&format!(", {} in TIME-WAIT before", self.time_waits));
        }
        words
    }

    /// The server as it is started where this is done to its connections.
    #[must_use]
    pub fn under(&self, treatment: &Treatment) -> Self {
        match treatment {
            Treatment::Peer(Peer::LargeBacklog) => Self { backlog: LARGE_BACKLOG, ..self.clone() },
            _ => self.clone(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.backlog == 0 || self.backlog > 65_535 {
            return Err(format!("backlog {} is not between 1 and 65535", self.backlog));
        }
        if self.cost_us > 10_000_000 {
            return Err(format!("cost_us {} is more than ten seconds a request", self.cost_us));
        }
        self.computed.check()?;
        if self.time_waits > TIME_WAITS_MAX {
            return Err(format!("time_waits {} is above {TIME_WAITS_MAX}", self.time_waits));
        }
        if self.threads == 0 || self.threads > THREADS_MAX {
            return Err(format!("threads {} is not between 1 and {THREADS_MAX}", self.threads));
        }
        let usual = Self::default();
        let kept = |key, kept, who: &str| match kept {
            true => Ok(()),
            false => Err(format!("{key} is for {who}; this server is {}", self.kind.name())),
        };
        let ours = "our own servers: userver, knot-c, knot-a, tux";
        kept("cost_us", self.kind.is_ours() || self.cost_us == usual.cost_us, ours)?;
        kept("computed", self.kind.is_ours() || self.computed == usual.computed, ours)?;
        kept("accept_limit", self.kind.is_ours() || self.accept_limit == usual.accept_limit, ours)?;
        let is = |kind| self.kind == kind;
        kept("events", is(ServerKind::Userver) || self.events == usual.events, "userver")?;
        let has_threads = is(ServerKind::KnotC) || is(ServerKind::KnotA);
        kept("threads", has_threads || self.threads == usual.threads, "knot-c and knot-a")?;
        kept("multi_accept", is(ServerKind::Nginx) || !self.multi_accept, "nginx")?;
        let serves_files = !is(ServerKind::Haproxy) || self.page == usual.page;
        kept("page", serves_files, "servers that have files")
    }
}

/// As `tidelab serve` takes it.
impl fmt::Display for AcceptLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(limit) => limit.fmt(f),
            Self::Inf => f.write_str("inf"),
            Self::Dynamic => f.write_str("dynamic"),
        }
    }
}

impl Serialize for AcceptLimit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(limit) => serializer.serialize_u32(*limit),
            word => serializer.collect_str(word),
        }
    }
}

impl<'de> Deserialize<'de> for AcceptLimit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Number(u32),
            Word(String),
        }
        match Given::deserialize(deserializer) {
            Ok(Given::Number(limit)) if limit > 0 => Ok(Self::At(limit)),
            Ok(Given::Word(word)) if word == "inf" => Ok(Self::Inf),
            Ok(Given::Word(word)) if word == "dynamic" => Ok(Self::Dynamic),
            _ => Err(serde::de::Error::custom(
                "accept_limit is a number from 1, \"inf\" or \"dynamic\"",
            )),
        }
    }
}
