// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration file: TOML, read whole and checked whole before anything is done.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::police::MOST;
use tidegate_datapath::programs::Sizes;
use tidegate_datapath::raw::*;
use tidegate_policy::mechanism;
use tidegate_policy::raw::*;
use toml::{Spanned, Value};

use crate::auto::{self, Auto};
use crate::failure::Result;
use crate::fin;
use crate::hook;
use crate::keys::Given;
use crate::notice;
use crate::police::{self, Police};
use crate::reader::{self, Reader};
use crate::reserv::{self, Reserv};
use crate::setting::{Written, Wrong};
use crate::share;
use crate::shed::{self, Shed};
use crate::time_wait::{self, Destination, Ends, TimeWait};

/// What an operator asked for.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The guarded listeners.
    pub guards: Vec<Guarded>,
    /// The interfaces to guard; empty: those that carry an address of the listeners.
    pub interfaces: Vec<String>,
    /// The file that holds the cookie keys; none: random ones, changed as time passes.
    pub cookie_keys: Option<PathBuf>,
    /// The file that holds the key of persistent dropping; none: a random one.
    pub shed_key: Option<PathBuf>,
    /// What these files hold, once they are read.
    pub keys: Given,
    /// Applications may say by a socket option how their connections end.
    pub socket_option: bool,
    /// Who holds TIME-WAIT.
    pub ends: Ends,
}

impl Config {
    /// Whether anything is asked about TIME-WAIT.
    pub fn asks_time_wait(&self) -> bool {
        !self.ends.destinations.is_empty()
            || self.guards.iter().any(|g| g.time_wait != tg_tw_rules::default())
    }

    /// Whether programs are to stand at the root of the cgroups.
    pub fn asks_cgroups(&self) -> bool {
        self.socket_option || self.asks_time_wait()
    }

    /// The tables that the guard must have.
    pub fn sizes(&self) -> Sizes {
        let held_blocks = self.ends.held_blocks(self.asks_time_wait());
        let shed_blocks = configuration::shed_blocks(&self.guards);
        Sizes { shed_blocks, held_blocks, ..Default::default() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    interfaces: Vec<String>,
    cookie_keys: Option<PathBuf>,
    shed_key: Option<PathBuf>,
    time_wait: Option<TimeWait>,
    #[serde(default)]
    destination: Vec<Spanned<Destination>>,
    #[serde(default)]
    socket_option: bool,
    #[serde(default)]
    listener: Vec<Spanned<Listener>>,
    #[serde(default)]
    path: Vec<Spanned<PathSection>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listener {
    port: Spanned<i64>,
    address: Option<Spanned<String>>,
    mechanism: Option<Spanned<String>>,
    hook: Option<Spanned<String>>,
    refusals_per_s: Option<Spanned<i64>>,
    log: Option<Spanned<Value>>,
    reserv: Option<Spanned<Reserv>>,
    ahead: Option<Spanned<i64>>,
    auto: Option<Spanned<Auto>>,
    shed: Option<Spanned<Shed>>,
    #[serde(default)]
    police: Vec<Police>,
    #[serde(default)]
    exempt: Vec<Spanned<String>>,
    fair_share: Option<Spanned<Value>>,
    fin: Option<Spanned<String>>,
    notice: Option<Spanned<Value>>,
    time_wait: Option<Spanned<String>>,
    places: Option<Spanned<i64>>,
    resize: Option<Spanned<bool>>,
    backlog: Option<Spanned<i64>>,
}

/// `[[path]]`: a listener of another host, to which this one forwards.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathSection {
    port: Spanned<i64>,
    address: Option<Spanned<String>>,
    hook: Option<Spanned<String>>,
    refusals_per_s: Option<Spanned<i64>>,
    log: Option<Spanned<Value>>,
    shed: Option<Spanned<Shed>>,
}

/// So much a second is the least of which a bucket, of 100 ms, holds one: of less there would never be
/// any.
const LEAST_PER_S: i64 = 1_000_000_000 / TG_BUCKET_DEPTH_NS as i64;
/// Refusals a second and processor.
const REFUSALS_PER_S: RangeInclusive<i64> = LEAST_PER_S..=1_000_000_000;
/// Lines a second and processor, to the most that the ring has room for between two looks of the daemon.
const LOG_PER_S: RangeInclusive<i64> = LEAST_PER_S..=10_000;

impl Reader<'_> {
    /// The backlog that its sockets shall have: only where we may change what the application says.
    fn backlog(&self, listener: &Listener) -> Result<Option<u32>> {
        let resize = listener.resize.as_ref().filter(|resize| *resize.get_ref());
        match (resize, &listener.backlog) {
            (None, None) => Ok(None),
            (Some(_), Some(backlog)) => self.queue_length("backlog", backlog).map(Some),
            (None, Some(backlog)) => Err(self.wrong(
                backlog.span(),
                "backlog is the application's, and may not be changed",
                "add resize = true, or take backlog out",
            )),
            (Some(resize), None) => Err(self.wrong(
                resize.span(),
                "resize = true, and to what is not said",
                "add backlog = 1024, or what `tidegate size` recommends",
            )),
        }
    }

    /// The logical limit, below the kernel's.
    fn places(&self, listener: &Listener, backlog: Option<u32>) -> Result<u32> {
        let Some(places) = &listener.places else { return Ok(0) };
        let length = self.queue_length("places", places)?;
        if let Some(backlog) = backlog.filter(|backlog| length > *backlog) {
            return Err(self.wrong(
                places.span(),
                format!("places = {length} is above backlog = {backlog}, and limits nothing"),
                "give fewer places, or a longer backlog",
            ));
        }
        Ok(length)
    }

    fn listener(&self, spanned: &Spanned<Listener>, ends: &Ends) -> Result<Guarded> {
        let listener = spanned.get_ref();
        let port = self.number("port", &listener.port, 1, 65535)? as u16;
        let address = self.address(&listener.address, false)?;
        let (text, span) = match &listener.mechanism {
            Some(m) => (m.get_ref().as_str(), m.span()),
            None if listener.shed.is_some() => (mechanism::BESIDE_SHED, spanned.span()),
            None => (mechanism::DEFAULT, spanned.span()),
        };
        let mut rules = mechanism::parse(text)
            .map_err(|wrong| self.wrong(span.clone(), wrong.what, wrong.fix))?;
        self.refusals(&listener.refusals_per_s, &mut rules)?;
        self.log(&listener.log, &mut rules)?;
        reserv::read(self, &listener.reserv, &mut rules)?;
        reserv::ahead(self, &listener.ahead, &mut rules)?;
        auto::read(self, &listener.auto, &mut rules)?;
        let mut hook = self.hook(&listener.hook, span, &rules)?;
        let time_wait = time_wait::listener(self, &listener.time_wait, &ends.listeners)?;
        rules.fin = self.fin(&listener.fin, &time_wait)?;
        if rules.would_pass_held_by(&time_wait) {
            hook = self.behind_held(&listener.hook, hook)?;
        }
        let backlog = self.backlog(listener)?;
        rules.places = self.places(listener, backlog)?;
        share::read(self, &listener.fair_share, &mut rules)?;
        let limits = police::limits(self, &listener.police, &listener.exempt)?;
        let mut guarded = Guarded {
            address,
            port,
            rules,
            hook,
            time_wait,
            backlog,
            limits,
            ..Default::default()
        };
        self.shed(&listener.shed, &listener.hook, &mut guarded)?;
        notice::read(self, &listener.notice, &mut guarded)?;
        Ok(guarded)
    }

    fn path(&self, spanned: &Spanned<PathSection>) -> Result<Guarded> {
        let path = spanned.get_ref();
        let port = self.number("port", &path.port, 1, 65535)? as u16;
        let Some(address) = self.address(&path.address, true)? else {
            return Err(self.wrong(
                spanned.span(),
                "a path leads to no address",
                "add the listener's, such as address = \"192.0.2.1\"",
            ));
        };
        if path.shed.is_none() {
            return Err(self.wrong(
                spanned.span(),
                "nothing is to be done on this path",
                "add shed = { p = 0.1 }",
            ));
        }
        let mut rules = mechanism::parse("default").expect("a name of ours");
        self.refusals(&path.refusals_per_s, &mut rules)?;
        self.log(&path.log, &mut rules)?;
        let hook = self.hook(&path.hook, spanned.span(), &rules)?;
        let address = Some(address);
        let mut guarded =
            Guarded { address, port, rules, hook, is_path: true, ..Default::default() };
        self.shed(&path.shed, &path.hook, &mut guarded)?;
        Ok(guarded)
    }

    fn refusals(&self, rate: &Option<Spanned<i64>>, rules: &mut tg_rules) -> Result<()> {
        let Some(rate) = rate else { return Ok(()) };
        rules.refusal_cost_ns = match *rate.get_ref() {
            0 => 0,
            per_s if REFUSALS_PER_S.contains(&per_s) => (1_000_000_000 / per_s) as u32,
            other => {
                return Err(self.wrong(
                    rate.span(),
                    format!("refusals_per_s = {other} is out of range"),
                    format!(
                        "give 0, which is no limit, or a number from {} to {}",
                        REFUSALS_PER_S.start(),
                        REFUSALS_PER_S.end()
                    ),
                ));
            }
        };
        Ok(())
    }

    fn log(&self, log: &Option<Spanned<Value>>, rules: &mut tg_rules) -> Result<()> {
        let Some(log) = log else { return Ok(()) };
        let per_s = match log.get_ref() {
            Value::Boolean(false) => return Ok(()),
            Value::Boolean(true) => *LOG_PER_S.start(),
            Value::Integer(per_s) if LOG_PER_S.contains(per_s) => *per_s,
            other => {
                return Err(self.wrong(
                    log.span(),
                    format!("log = {other} is neither true or false nor a rate in range"),
                    format!(
                        "give true, or a number of lines a second from {} to {}",
                        LOG_PER_S.start(),
                        LOG_PER_S.end()
                    ),
                ));
            }
        };
        rules.log_cost_ns = (1_000_000_000 / per_s) as u32;
        Ok(())
    }

    fn hook(
        &self,
        hook: &Option<Spanned<String>>,
        otherwise: Range<usize>,
        rules: &tg_rules,
    ) -> Result<u32> {
        let (name, span) = match hook {
            Some(h) => (h.get_ref().as_str(), h.span()),
            None => ("auto", otherwise),
        };
        hook::parse(Written::InFile, name, rules).map_err(|(what, fix)| self.wrong(span, what, fix))
    }

    /// What a client's FIN does. One that ends both ends at once leaves nothing for the server to hold.
    fn fin(&self, fin: &Option<Spanned<String>>, time_wait: &tg_tw_rules) -> Result<u32> {
        let Some(fin) = fin else { return Ok(TG_HALF_CLOSE) };
        let rule = fin::parse(Written::InFile, fin.get_ref())
            .map_err(|(what, fix)| self.wrong(fin.span(), what, fix))?;
        if rule != TG_HALF_CLOSE && time_wait.negotiate == TG_TW_SERVER {
            return Err(self.wrong(
                fin.span(),
                format!("fin = \"{}\" leaves no TIME-WAIT for the server to hold", fin.get_ref()),
                "use time_wait = \"client\" or \"off\", or take fin out",
            ));
        }
        Ok(rule)
    }

    /// The table of pairs that are held in TIME-WAIT here is at the IP entry. A SYN that was answered with a
    /// cookie at the driver would pass it by, and open the pair anew without its knowing.
    fn behind_held(&self, written: &Option<Spanned<String>>, hook: u32) -> Result<u32> {
        match (hook, written) {
            (TG_HOOK_AUTO, _) => Ok(TG_HOOK_IP),
            (TG_HOOK_DRIVER, Some(written)) => Err(self.wrong(
                written.span(),
                "time_wait = \"server\" and SYN cookies do not go with hook = \"driver\"",
                "use hook = \"ip\", or mechanism = \"abort rst-syn\"",
            )),
            _ => Ok(hook),
        }
    }

    fn shed(
        &self,
        options: &Option<Spanned<Shed>>,
        hook: &Option<Spanned<String>>,
        guarded: &mut Guarded,
    ) -> Result<()> {
        let Some(options) = options else { return Ok(()) };
        if guarded.hook == TG_HOOK_TCP {
            let span = hook.as_ref().map_or(options.span(), Spanned::span);
            return Err(self.wrong(
                span,
                "persistent dropping is decided at the driver or the IP entry",
                "use hook = \"auto\", \"driver\" or \"ip\"",
            ));
        }
        (guarded.shed, guarded.preferred) = shed::rules(self, options, guarded.is_path)?;
        Ok(())
    }
}

/// Whether the last of these is one too many for the programs' maps, which hold two configurations.
fn too_many(guards: &[Guarded]) -> std::result::Result<(), Wrong> {
    let preferred = guards.iter().map(|g| g.preferred.len()).sum::<usize>();
    let limits = guards.iter().map(|g| g.limits.len()).sum::<usize>();
    let port = guards.last().map_or(0, |g| g.port);
    let on_port = guards.iter().filter(|g| g.port == port).count();
    let (most, most_on_port) = (TG_GUARDS as usize, TG_GUARDS_A_PORT as usize);
    let most_preferred = TG_PREFERRED as usize / 2;
    let (what, fix) = if guards.len() > most {
        (
            format!("there are more than {most} [[listener]] and [[path]] sections"),
            "join those of one port: without address, one is for every address",
        )
    } else if on_port > most_on_port {
        (
            format!("port {port} has more than {most_on_port} sections"),
            "join some: without address, one is for every address that has none of its own",
        )
    } else if limits > MOST {
        (format!("police and exempt name more than {MOST} networks"), "name fewer, larger ones")
    } else if preferred > most_preferred {
        (format!("preferred names more than {most_preferred} networks"), "name fewer, larger ones")
    } else {
        return Ok(());
    };
    Err((what, fix.to_owned()))
}

/// Reads a configuration file, and the keys' files that it names.
pub fn read(path: &Path) -> Result<Config> {
    let config = parse(path, &reader::text(path)?)?;
    let keys = Given::read(config.cookie_keys.as_deref(), config.shed_key.as_deref())?;
    Ok(Config { keys, ..config })
}

/// Checks a configuration's text; `path` is for what is told of it.
pub fn parse(path: &Path, text: &str) -> Result<Config> {
    let reader = Reader::new(path, text, "configuration.md");
    let file: File = reader.file()?;
    let mut config = Config {
        guards: Vec::new(),
        interfaces: file.interfaces,
        cookie_keys: file.cookie_keys,
        shed_key: file.shed_key,
        keys: Given::default(),
        socket_option: file.socket_option,
        ends: Ends::read(&reader, &file.time_wait, &file.destination)?,
    };
    let ends = config.ends.clone();
    let span_of = |shed: &Option<Spanned<Shed>>| shed.as_ref().map(Spanned::span);
    let listeners = file
        .listener
        .iter()
        .map(|l| (reader.listener(l, &ends), l.span(), span_of(&l.get_ref().shed)));
    let paths = file.path.iter().map(|p| (reader.path(p), p.span(), span_of(&p.get_ref().shed)));
    for (guarded, span, shed_span) in listeners.chain(paths) {
        let guarded = guarded?;
        if let Some(other) = config.guards.iter().find(|g| g.has_listener_of(&guarded)) {
            let place = guarded.address.map_or("every address".to_owned(), |a| a.to_string());
            let kind = if other.is_path == guarded.is_path && guarded.is_path {
                "[[path]] sections"
            } else if other.is_path == guarded.is_path {
                "[[listener]] sections"
            } else {
                "sections"
            };
            return Err(reader.wrong(
                span,
                format!("port {} on {place} is guarded twice", guarded.port),
                format!("remove one of the two {kind}"),
            ));
        }
        config.guards.push(guarded);
        let blocks = config.guards.iter().map(|g| g.shed.blocks);
        shed::tables_fit(blocks)
            .map_err(|(what, fix)| reader.wrong(shed_span.unwrap_or(span.clone()), what, fix))?;
        too_many(&config.guards).map_err(|(what, fix)| reader.wrong(span, what, fix))?;
    }
    // A host that only connects guards no listener.
    if config.guards.is_empty() && !config.asks_time_wait() {
        return Err(reader.wrong(
            0..0,
            "no listener is named",
            "add a [[listener]] section with a port",
        ));
    }
    Ok(config)
}

/// The address and port that are guarded, for people.
pub fn place(guarded: &Guarded) -> String {
    let address = guarded.address.map_or("*".to_owned(), |address| address.to_string());
    format!("{address} port {}", guarded.port)
}

#[cfg(test)]
mod tests;
