// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server under load.

use serde::{Deserialize, Serialize};

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// Ours, event-driven (Shukla 3.1.1).
    #[default]
    Userver,
    /// nginx, one worker.
    Nginx,
    /// Apache httpd, event workers.
    Apache2,
    /// lighttpd.
    Lighttpd,
    /// haproxy, answering by itself.
    Haproxy,
}

/// How many connections are accepted before others are worked on (Pariag 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptLimit {
    /// At most so many.
    At(u32),
    /// Until the listen queue is empty (Accept-INF).
    Inf,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    /// Which.
    pub kind: ServerKind,
    /// Length of its listen queue.
    pub backlog: u32,
    /// Of our own servers.
    pub accept_limit: AcceptLimit,
    /// Processor time per request beside the serving itself, in µs; of our own servers.
    pub cost_us: u64,
    /// What it serves.
    pub page: Page,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            kind: ServerKind::Userver,
            backlog: 128,
            accept_limit: AcceptLimit::Inf,
            cost_us: 0,
            page: Page::OnePacket,
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
    cost_us: Option<u64>,
    page: Option<Page>,
}

impl ServerKeys {
    pub(crate) fn over(&self, base: &Server) -> Server {
        Server {
            kind: self.kind.unwrap_or(base.kind),
            backlog: self.backlog.unwrap_or(base.backlog),
            accept_limit: self.accept_limit.unwrap_or(base.accept_limit),
            cost_us: self.cost_us.unwrap_or(base.cost_us),
            page: self.page.unwrap_or(base.page),
        }
    }
}

impl Server {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.backlog == 0 || self.backlog > 65_535 {
            return Err(format!("backlog {} is not between 1 and 65535", self.backlog));
        }
        if self.cost_us > 10_000_000 {
            return Err(format!("cost_us {} is more than ten seconds a request", self.cost_us));
        }
        let tuned = self.cost_us != 0 || self.accept_limit != AcceptLimit::Inf;
        if tuned && self.kind != ServerKind::Userver {
            return Err("cost_us and accept_limit are for kind = \"userver\" only".to_owned());
        }
        Ok(())
    }
}

impl Serialize for AcceptLimit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(limit) => serializer.serialize_u32(*limit),
            Self::Inf => serializer.serialize_str("inf"),
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
            _ => Err(serde::de::Error::custom("accept_limit is a number from 1, or \"inf\"")),
        }
    }
}
