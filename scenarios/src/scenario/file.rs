// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a scenario's file says, and whether its parts go together.

use std::collections::BTreeSet;
use std::iter::once;

use serde::Deserialize;
use toml::Spanned;

use super::Network;
use super::source::Source;
use crate::claim::Claim;
use crate::clients::{ClientKeys, Clients};
use crate::curve::{CurveKeys, Setting};
use crate::error::ScenarioError;
use crate::factor::{Combination, FactorKeys};
use crate::groups;
use crate::load::{Form, Load, LoadKeys};
use crate::server::{Server, ServerKeys};
use crate::view::{Bars, Panel, Table};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) also: Vec<String>,
    pub(super) title: String,
    pub(super) source: String,
    pub(super) capacity_of: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) about: String,
    #[serde(default)]
    pub(super) profile: bool,
    #[serde(default)]
    pub(super) network: Network,
    pub(super) server: Option<Spanned<ServerKeys>>,
    pub(super) clients: Option<Spanned<ClientKeys>>,
    pub(super) load: Spanned<LoadKeys>,
    #[serde(default)]
    pub(super) factor: Vec<Spanned<FactorKeys>>,
    pub(super) curve: Vec<Spanned<CurveKeys>>,
    pub(super) panel: Option<Vec<Panel>>,
    #[serde(default)]
    pub(super) bars: Vec<Bars>,
    #[serde(default)]
    pub(super) table: Vec<Spanned<Table>>,
    #[serde(default)]
    pub(super) claim: Vec<Spanned<Claim>>,
}

impl File {
    /// The server of every curve, but for what a curve says of its own.
    pub(super) fn server(&self, source: &Source) -> Result<Server, ScenarioError> {
        let Some(keys) = &self.server else { return Ok(Server::default()) };
        let server = keys.get_ref().over(&Server::default());
        server.check().map_err(source.wrong_at(keys))?;
        Ok(server)
    }

    /// The clients likewise.
    pub(super) fn clients(&self, source: &Source) -> Result<Clients, ScenarioError> {
        let Some(keys) = &self.clients else { return Ok(Clients::default()) };
        let clients = keys.get_ref().over(&Clients::default());
        clients.check().map_err(source.wrong_at(keys))?;
        Ok(clients)
    }

    /// The load in each of its forms.
    fn loads(&self) -> [Load; 2] {
        [Form::Full, Form::Short].map(|form| self.load.get_ref().resolve(form))
    }

    pub(super) fn check_load(&self, source: &Source) -> Result<(), ScenarioError> {
        self.loads().iter().try_for_each(Load::check).map_err(source.wrong_at(&self.load))
    }

    pub(super) fn check_factors(&self, source: &Source) -> Result<(), ScenarioError> {
        for factor in &self.factor {
            factor.get_ref().check().map_err(source.wrong_at(factor))?;
        }
        Ok(())
    }

    /// Its curves, each once for every combination, and their names as the file has them.
    pub(super) fn settings(
        &self,
        combinations: &[(Combination, Server, Clients)],
        source: &Source,
    ) -> Result<(Vec<Setting>, Vec<String>), ScenarioError> {
        let each =
            combinations.iter().flat_map(|of| self.curve.iter().map(move |curve| (of, curve)));
        let mut settings: Vec<Setting> = Vec::new();
        let mut curves: Vec<String> = Vec::new();
        for ((combination, server, clients), curve) in each {
            let wrong = source.wrong_at(curve);
            let mut setting = curve.get_ref().resolve(server, clients).map_err(&wrong)?;
            setting.clients = setting.clients.seen_from(source.folder());
            if !curves.contains(&setting.curve) {
                curves.push(setting.curve.clone());
            }
            setting.curve = combination.curve(&setting.curve);
            self.check_setting(&setting, &settings).map_err(wrong)?;
            settings.push(setting);
        }
        if settings.is_empty() {
            return Err(source.wrong(None, "a scenario has at least one [[curve]]".to_owned()));
        }
        Ok((settings, curves))
    }

    /// That a curve goes with the network, the load and the curves before it.
    fn check_setting(&self, setting: &Setting, before: &[Setting]) -> Result<(), String> {
        if self.network == Network::Direct && setting.sheds_on_router() {
            let what = "shed is on a router, and there is none";
            return Err(format!("{what}: write network = \"routed\" above"));
        }
        self.loads().iter().try_for_each(|load| load.suits(&setting.clients))?;
        if before.iter().any(|other| other.curve == setting.curve) {
            return Err(format!(
                "two curves are called \"{}\": give one a name of its own",
                setting.curve
            ));
        }
        Ok(())
    }

    pub(super) fn check_capacity_of(
        &self,
        settings: &[Setting],
        source: &Source,
    ) -> Result<(), ScenarioError> {
        let Some(wanted) = &self.capacity_of else { return Ok(()) };
        let named: Vec<&str> = settings.iter().map(|setting| setting.curve.as_str()).collect();
        if named.contains(&wanted.get_ref().as_str()) {
            return Ok(());
        }
        Err(source.wrong_at(wanted)(format!(
            "capacity_of names the curve \"{}\"; there are \"{}\"",
            wanted.get_ref(),
            named.join("\", \"")
        )))
    }

    pub(super) fn check_claims(
        &self,
        settings: &[Setting],
        curves: &[String],
        source: &Source,
    ) -> Result<(), ScenarioError> {
        for claim in &self.claim {
            let wrong = source.wrong_at(claim);
            let claim = claim.get_ref();
            claim.check(curves, !self.factor.is_empty()).map_err(&wrong)?;
            let each = settings.iter().zip(curves.iter().cycle());
            for (setting, _) in each.filter(|(_, curve)| claim.is_about(curve)) {
                claim.check_seconds(setting).map_err(&wrong)?;
            }
        }
        Ok(())
    }

    /// That results have every number that is asked for, where it is asked for.
    pub(super) fn check_numbers(
        &self,
        settings: &[Setting],
        source: &Source,
    ) -> Result<(), ScenarioError> {
        let networks = settings.iter().flat_map(|setting| setting.clients.networks.numbers());
        let networks: Vec<String> = networks.collect::<BTreeSet<_>>().into_iter().collect();
        for (offset, path) in self.measures() {
            groups::check(path, &networks).map_err(|what| source.wrong(offset, what))?;
        }
        for (offset, path) in self.columns() {
            groups::check_one(path, "a table").map_err(|what| source.wrong(Some(offset), what))?;
        }
        for path in self.panels() {
            groups::check_panel(path).map_err(|what| source.wrong(None, what))?;
        }
        for bars in &self.bars {
            groups::check_bars(&bars.measure, &networks)
                .map_err(|what| source.wrong(None, what))?;
        }
        let has_several = settings.iter().any(|setting| setting.clients.requests > 1.0);
        for (offset, measure, over) in self.quotients() {
            check_quotient(measure, over, has_several)
                .map_err(|what| source.wrong(Some(offset), what))?;
        }
        Ok(())
    }

    /// Every number of a result that it asks for, but for bars, with where, as far as that is known.
    fn measures(&self) -> impl Iterator<Item = (Option<usize>, &str)> {
        let claims = self.claim.iter().flat_map(|claim| {
            let Claim { measure, over, .. } = claim.get_ref();
            let at = Some(claim.span().start);
            once(measure).chain(over).map(move |path| (at, path.as_str()))
        });
        let columns = self.columns().map(|(at, path)| (Some(at), path));
        claims.chain(columns).chain(self.panels().map(|path| (None, path)))
    }

    /// Those of its tables.
    fn columns(&self) -> impl Iterator<Item = (usize, &str)> {
        self.table.iter().flat_map(|table| {
            let at = table.span().start;
            let columns = table.get_ref().columns.iter();
            let paths = columns.flat_map(|column| once(&column.measure).chain(&column.over));
            paths.map(move |path| (at, path.as_str()))
        })
    }

    /// Those of its panels.
    fn panels(&self) -> impl Iterator<Item = &str> {
        self.panel.iter().flatten().map(|panel| panel.measure.as_str())
    }

    /// Every quotient of two numbers of a result that it asks for, with where.
    fn quotients(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        let claims = self.claim.iter().filter_map(|claim| {
            let Claim { measure, over, .. } = claim.get_ref();
            Some((claim.span().start, measure.as_str(), over.as_deref()?))
        });
        let columns = self.table.iter().flat_map(|table| {
            table.get_ref().columns.iter().filter_map(move |column| {
                Some((table.span().start, column.measure.as_str(), column.over.as_deref()?))
            })
        });
        claims.chain(columns)
    }
}

/// Requests a second, by their paths in a result.
const REQUESTS: [&str; 3] = ["replies_per_s", "offered_per_s", "capacity_per_s"];
/// Whether it is of attempts a second, of which each may have several requests.
fn is_of_attempts(path: &str) -> bool {
    match path.split_once('.') {
        None => path == "errors_per_s",
        Some(("networks", part)) => {
            part.ends_with(".attempts_per_s") || part.ends_with(".answered_per_s")
        }
        Some((group, _)) => ["answered_within_per_s", "errors_per_s"].contains(&group),
    }
}

/// Segments are those of all of the run, and of these alone a quotient says something. Where connections have
/// several requests, attempts are no share of requests.
fn check_quotient(measure: &str, over: &str, has_several: bool) -> Result<(), String> {
    let is_of_all = |path: &str| path.split('.').next() == Some("segments");
    if is_of_all(measure) != is_of_all(over) {
        return Err(format!(
            "{measure} over {over} is of all of the run and of the time that counts: divide segments by \
             segments, or take syns_per_attempt.mean for SYNs an attempt"
        ));
    }
    let divides = |one: &str, other: &str| is_of_attempts(one) && REQUESTS.contains(&other);
    if !has_several || !divides(measure, over) && !divides(over, measure) {
        return Ok(());
    }
    Err(format!(
        "{measure} over {over} is of attempts and of requests, and connections have several requests: give \
         requests = 1, or leave over out"
    ))
}
