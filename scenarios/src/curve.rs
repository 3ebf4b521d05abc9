// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One curve of a figure: what is done to connections, and to which server and clients.

use serde::{Deserialize, Serialize};
use tidegate_policy::mechanism;

use crate::clients::{ClientKeys, Clients};
use crate::fin::Fin;
use crate::options::{Auto, Options, Reserv};
use crate::precedence::{Policed, Precedence};
use crate::server::{Server, ServerKeys};
use crate::shed::{Shed, ShedPlace};
use crate::time_wait::TimeWait;

/// What else people put in front of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Nothing: the kernel alone, not even counted.
    Kernel,
    /// net.ipv4.tcp_abort_on_overflow = 1, for the whole host.
    AbortOnOverflow,
    /// net.ipv4.tcp_syncookies = 0.
    #[serde(rename = "syncookies-0")]
    SynCookies0,
    /// net.ipv4.tcp_syncookies = 1: the default, when the SYN queue is full.
    #[serde(rename = "syncookies-1")]
    SynCookies1,
    /// net.ipv4.tcp_syncookies = 2: for every SYN.
    #[serde(rename = "syncookies-2")]
    SynCookies2,
    /// A listen queue of 65,535.
    LargeBacklog,
    /// nftables: SYNs above the capacity are rejected with RST.
    NftReject,
    /// nftables: SYNs above the capacity are dropped.
    NftLimit,
    /// nftables: the handshake is done by synproxy.
    NftSynproxy,
}

/// What is done to connections that there is no room for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// A mechanism of Tidegate's, by its name.
    Mechanism(String),
    /// Something else.
    Peer(Peer),
}

/// What a file says of a curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurveKeys {
    pub name: Option<String>,
    mechanism: Option<String>,
    auto: Option<Auto>,
    reserv: Option<Reserv>,
    ahead: Option<u32>,
    places: Option<u32>,
    #[serde(default)]
    fair_share: bool,
    #[serde(default)]
    police: Vec<Policed>,
    #[serde(default)]
    exempt: Vec<String>,
    peer: Option<Peer>,
    hook: Option<String>,
    fin: Option<Fin>,
    #[serde(default)]
    time_wait: TimeWait,
    shed: Option<Shed>,
    #[serde(default)]
    server: ServerKeys,
    #[serde(default)]
    clients: ClientKeys,
}

/// A server and what is asked of it, as far as its capacity depends on it: the server, and the
/// bits of the mean number of requests on a connection.
pub type ServerUse = (Server, u64);

/// A curve with everything resolved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// What the legend calls it; no two of a scenario are alike.
    pub curve: String,
    /// What is done to connections.
    pub treatment: Treatment,
    /// What is said of its mechanism beside the name.
    pub options: Options,
    /// Which networks of clients go first.
    pub precedence: Precedence,
    /// Where Tidegate looks at SYNs: `auto`, `driver`, `ip` or `tcp`.
    pub hook: String,
    /// What a client's FIN does.
    pub fin: Fin,
    /// Who holds TIME-WAIT.
    pub time_wait: TimeWait,
    /// Persistent dropping, before all that.
    pub shed: Option<Shed>,
    /// The server.
    pub server: Server,
    /// The clients.
    pub clients: Clients,
}

impl Setting {
    /// What its server's capacity depends on: curves that agree in it are measured once. It is
    /// measured of a server that holds nothing.
    #[must_use]
    pub fn server_use(&self) -> ServerUse {
        let server = Server { time_waits: 0, ..self.server.clone() };
        (server, self.clients.requests.to_bits())
    }

    /// Whether it is the router that sheds.
    #[must_use]
    pub fn sheds_on_router(&self) -> bool {
        self.shed.as_ref().is_some_and(|shed| shed.at == ShedPlace::Router)
    }

    /// What is done to connections, as results name it.
    #[must_use]
    pub fn done(&self) -> String {
        let Self { treatment, options, precedence, fin, time_wait, shed, .. } = self;
        done(treatment, options, precedence, *fin, *time_wait, shed.as_ref())
    }
}

/// As curves and results name it: persistent dropping alone where there is nothing else.
fn done(
    treatment: &Treatment,
    options: &Options,
    precedence: &Precedence,
    fin: Fin,
    time_wait: TimeWait,
    shed: Option<&Shed>,
) -> String {
    let is_alone = match treatment {
        Treatment::Peer(peer) => *peer == Peer::Kernel,
        Treatment::Mechanism(name) => name == "default" && fin == Fin::HalfClose,
    } && time_wait == TimeWait::Today
        && *options == Options::default()
        && *precedence == Precedence::default();
    let mut name = treatment.name();
    if let Some(options) = options.name() {
        name = format!("{name}, {options}");
    }
    if let Some(precedence) = precedence.name() {
        name = format!("{name}, {precedence}");
    }
    if fin != Fin::HalfClose {
        name = format!("{name} {}", fin.name());
    }
    if time_wait != TimeWait::Today {
        name = format!("{name}, {}", time_wait.name());
    }
    match shed {
        None => name,
        Some(shed) if is_alone => shed.name(),
        Some(shed) => format!("{name}, {}", shed.name()),
    }
}

fn check_shed(
    shed: Option<&Shed>,
    treatment: &Treatment,
    hook: Option<&str>,
) -> Result<(), String> {
    let Some(shed) = shed else { return Ok(()) };
    shed.check()?;
    match (treatment, shed.at) {
        (Treatment::Mechanism(_), ShedPlace::Server) if hook == Some("tcp") => {
            Err("shed is decided before the tcp hook: give hook \"driver\" or \"ip\"".to_owned())
        }
        (Treatment::Mechanism(_), ShedPlace::Server)
        | (Treatment::Peer(Peer::Kernel), ShedPlace::Router) => Ok(()),
        (_, ShedPlace::Server) => {
            Err("shed on a server is Tidegate's: give a mechanism, as in \"default\"".to_owned())
        }
        (_, ShedPlace::Router) => {
            Err("shed on a router leaves the server alone: give peer = \"kernel\"".to_owned())
        }
    }
}

/// That a mechanism can be carried out where the curve has it, as `tidegate` refuses it; where the curve
/// leaves it open `tidegate` finds a place that can.
fn check_hook(
    treatment: &Treatment,
    options: &Options,
    hook: Option<&str>,
    time_wait: TimeWait,
) -> Result<(), String> {
    let (Treatment::Mechanism(name), Some(hook)) = (treatment, hook) else { return Ok(()) };
    if !["auto", "driver", "ip", "tcp"].contains(&hook) {
        return Err(format!("hook \"{hook}\" is not auto, driver, ip or tcp"));
    }
    let rules = options.over(mechanism::parse(name).map_err(|error| error.to_string())?);
    if hook == "tcp" && rules.answers_syns() {
        return Err(format!(
            "\"{name}\" cannot be carried out at the tcp hook, which can only drop: leave hook out, or give a \
             mechanism such as \"abort early-syn-drop\""
        ));
    }
    if hook == "tcp" && rules.needs_cookies() {
        return Err("when_exhausted = \"cookie\" cannot be carried out at the tcp hook, which can only drop: \
                    leave hook out, or take it out"
            .to_owned());
    }
    if hook == "driver" && rules.would_pass_held_by(&time_wait.at_server()) {
        return Err("time_wait = \"negotiate-server\" and SYN cookies do not go with hook = \"driver\": give \
                    hook = \"ip\", or mechanism = \"abort rst-syn\""
            .to_owned());
    }
    Ok(())
}

impl Treatment {
    /// As results name it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Mechanism(name) => name.clone(),
            Self::Peer(peer) => peer.name().to_owned(),
        }
    }
}

impl Peer {
    /// As scenarios spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::AbortOnOverflow => "abort-on-overflow",
            Self::SynCookies0 => "syncookies-0",
            Self::SynCookies1 => "syncookies-1",
            Self::SynCookies2 => "syncookies-2",
            Self::LargeBacklog => "large-backlog",
            Self::NftReject => "nft-reject",
            Self::NftLimit => "nft-limit",
            Self::NftSynproxy => "nft-synproxy",
        }
    }
}

impl CurveKeys {
    pub(crate) fn resolve(&self, server: &Server, clients: &Clients) -> Result<Setting, String> {
        let treatment = match (&self.mechanism, self.peer) {
            (Some(name), None) => Treatment::Mechanism(name.clone()),
            (None, Some(peer)) => Treatment::Peer(peer),
            _ => return Err("a curve has either a mechanism or a peer".to_owned()),
        };
        if self.hook.is_some() && self.peer.is_some() {
            return Err("hook is for a mechanism: a peer has its own place".to_owned());
        }
        if self.fin.is_some() && self.peer.is_some() {
            return Err("fin is Tidegate's: give a mechanism, as in \"default\"".to_owned());
        }
        check_shed(self.shed.as_ref(), &treatment, self.hook.as_deref())?;
        let fin = self.fin.unwrap_or_default();
        let options = Options {
            auto: self.auto,
            reserv: self.reserv.clone(),
            ahead: self.ahead,
            places: self.places,
        };
        options.check(&treatment)?;
        check_hook(&treatment, &options, self.hook.as_deref(), self.time_wait)?;
        let precedence = Precedence {
            fair_share: self.fair_share,
            police: self.police.clone(),
            exempt: self.exempt.clone(),
        };
        let shed = self.shed.as_ref();
        let name = done(&treatment, &options, &precedence, fin, self.time_wait, shed);
        let setting = Setting {
            curve: self.name.clone().unwrap_or(name),
            treatment,
            options,
            precedence,
            hook: self.hook.clone().unwrap_or_else(|| "auto".to_owned()),
            fin,
            time_wait: self.time_wait,
            shed: self.shed.clone().map(Shed::resolved),
            server: self.server.over(server),
            clients: self.clients.over(clients),
        };
        setting.server.check()?;
        setting.clients.check()?;
        setting.precedence.check(&setting.treatment, &setting.clients.networks)?;
        setting.time_wait.check(&setting.treatment, setting.fin, &setting.clients)?;
        Ok(setting)
    }
}
