// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario: an experiment as one file.

mod part;

use std::collections::BTreeSet;
use std::iter::once;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::claim::Claim;
use crate::clients::{Arrivals, ClientKeys, Clients};
use crate::curve::{CurveKeys, Setting};
use crate::error::{Place, ScenarioError};
use crate::factor::{Combination, FactorKeys, combinations};
use crate::groups;
use crate::load::{Form, Load, LoadKeys};
use crate::server::{Server, ServerKeys};
use crate::trace;
use crate::view::{Bars, Panel, Table, default_panels};

pub use part::Part;

/// An experiment: its curves, its load, how it is shown, and what it should show.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What results call it: `shukla-4.7`.
    pub name: String,
    /// What else it may be called: other figures of its paper that the same runs fill.
    pub also: Vec<String>,
    /// The heading.
    pub title: String,
    /// Where it comes from: a paper and its section or figure.
    pub source: String,
    /// What it is about, in a few sentences.
    pub about: String,
    /// Its curves, in the legend's order; each once for every combination of levels.
    pub settings: Vec<Setting>,
    /// What all of it is varied by, if anything.
    pub factors: Vec<String>,
    /// Every combination of their levels, at least one.
    pub combinations: Vec<Combination>,
    /// Plots against offered load.
    pub panels: Vec<Panel>,
    /// Stacked bars.
    pub bars: Vec<Bars>,
    /// Tables.
    pub tables: Vec<Table>,
    /// What it should show.
    pub claims: Vec<Claim>,
    /// What lies between clients and server.
    pub network: Network,
    /// Whether the server's processor is sampled by component (Shukla Table 4.4).
    pub profile: bool,
    /// The curve whose server's capacity every rate is a multiple of; else each its own server's.
    pub capacity_of: Option<String>,
    /// The text it was read from, so that results can carry it.
    pub text: String,
    load: LoadKeys,
    curves: Vec<String>,
}

/// What lies between clients and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// A cable.
    #[default]
    Direct,
    /// A router.
    Routed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    also: Vec<String>,
    title: String,
    source: String,
    capacity_of: Option<Spanned<String>>,
    #[serde(default)]
    about: String,
    #[serde(default)]
    profile: bool,
    #[serde(default)]
    network: Network,
    server: Option<Spanned<ServerKeys>>,
    clients: Option<Spanned<ClientKeys>>,
    load: Spanned<LoadKeys>,
    #[serde(default)]
    factor: Vec<Spanned<FactorKeys>>,
    curve: Vec<Spanned<CurveKeys>>,
    panel: Option<Vec<Panel>>,
    #[serde(default)]
    bars: Vec<Bars>,
    #[serde(default)]
    table: Vec<Spanned<Table>>,
    #[serde(default)]
    claim: Vec<Spanned<Claim>>,
}

impl File {
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

/// Where connections have several requests, attempts are no share of requests.
fn check_quotient(measure: &str, over: &str) -> Result<(), String> {
    let divides = |one: &str, other: &str| is_of_attempts(one) && REQUESTS.contains(&other);
    if !divides(measure, over) && !divides(over, measure) {
        return Ok(());
    }
    Err(format!(
        "{measure} over {over} is of attempts and of requests, and connections have several requests: give \
         requests = 1, or leave over out"
    ))
}

impl Scenario {
    /// Whether the same is run, but for how much is offered, for how long, and by which seed; results of
    /// both are then runs of one, where their traces say the same ([`Scenario::recorded`]).
    #[must_use]
    pub fn runs_what(&self, other: &Self) -> bool {
        self.settings_anywhere() == other.settings_anywhere()
            && self.network == other.network
            && self.capacity_of == other.capacity_of
            && self.profile == other.profile
            && self.warm_ups_s() == other.warm_ups_s()
    }

    /// What the recorded traces say that its curves play, one after the other, each once; nothing where
    /// they play none.
    ///
    /// # Errors
    /// [`ScenarioError::Text`] for one that cannot be read.
    pub fn recorded(&self) -> Result<String, ScenarioError> {
        let texts = self.traces().into_iter().enumerate().map(|(place, file)| {
            Ok(format!("# trace {}\n{}\n", place + 1, trace::read_text(file)?))
        });
        texts.collect()
    }

    /// The files of these traces.
    fn traces(&self) -> Vec<&Path> {
        let mut traces: Vec<&Path> = Vec::new();
        for setting in &self.settings {
            if let Arrivals::Trace(file) = &setting.clients.arrivals
                && !traces.contains(&file.as_path())
            {
                traces.push(file);
            }
        }
        traces
    }

    /// Its curves, each trace by its place among all in place of where it lies: a copy of the scenario
    /// lies elsewhere.
    fn settings_anywhere(&self) -> Vec<Setting> {
        let traces = self.traces();
        let mut settings = self.settings.clone();
        for setting in &mut settings {
            if let Arrivals::Trace(file) = &mut setting.clients.arrivals {
                let place = traces.iter().position(|trace| *trace == file.as_path());
                *file = PathBuf::from(place.unwrap_or_default().to_string());
            }
        }
        settings
    }

    /// Load before attempts count, in either form.
    fn warm_ups_s(&self) -> [Option<f64>; 2] {
        [Form::Full, Form::Short].map(|form| self.load(form).warm_up_s)
    }

    /// Reads a file; its stem is the scenario's name.
    ///
    /// # Errors
    /// [`ScenarioError::Unreadable`], or what [`Scenario::parse`] finds.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Unreadable {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        let name =
            path.file_stem().map_or_else(|| file.clone(), |stem| stem.to_string_lossy().into());
        Self::parse(&name, &file, &text)
    }

    /// Reads a text; `file` is what complaints call it.
    ///
    /// # Errors
    /// [`ScenarioError::Text`], with the line.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, ScenarioError> {
        let at = |offset: Option<usize>, what: String| ScenarioError::Text {
            place: Place { file: file.to_owned(), line: offset.map(|offset| line(text, offset)) },
            what,
        };
        let read: File = toml::from_str(text).map_err(|error| {
            let mut what = error.message().lines().collect::<Vec<_>>().join("; ");
            if !what.contains("expected") {
                what.push_str("; docs/experiments.md has every key of a scenario");
            }
            at(error.span().map(|span| span.start), what)
        })?;
        let server = match &read.server {
            Some(keys) => {
                let server = keys.get_ref().over(&Server::default());
                server.check().map_err(|what| at(Some(keys.span().start), what))?;
                server
            }
            None => Server::default(),
        };
        let clients = match &read.clients {
            Some(keys) => {
                let clients = keys.get_ref().over(&Clients::default());
                clients.check().map_err(|what| at(Some(keys.span().start), what))?;
                clients
            }
            None => Clients::default(),
        };
        let load = |form| read.load.get_ref().resolve(form);
        for form in [Form::Full, Form::Short] {
            load(form).check().map_err(|what| at(Some(read.load.span().start), what))?;
        }
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        for factor in &read.factor {
            factor.get_ref().check().map_err(|what| at(Some(factor.span().start), what))?;
        }
        let factors: Vec<&FactorKeys> = read.factor.iter().map(Spanned::get_ref).collect();
        let combinations = combinations(&factors, &server, &clients);
        let each =
            combinations.iter().flat_map(|of| read.curve.iter().map(move |curve| (of, curve)));
        let mut settings: Vec<Setting> = Vec::new();
        let mut curves: Vec<String> = Vec::new();
        for ((combination, server, clients), curve) in each {
            let wrong = |what: String| at(Some(curve.span().start), what);
            let mut setting = curve.get_ref().resolve(server, clients).map_err(wrong)?;
            setting.clients = setting.clients.seen_from(folder);
            if !curves.contains(&setting.curve) {
                curves.push(setting.curve.clone());
            }
            setting.curve = combination.curve(&setting.curve);
            if read.network == Network::Direct && setting.sheds_on_router() {
                let what = "shed is on a router, and there is none";
                return Err(wrong(format!("{what}: write network = \"routed\" above")));
            }
            for form in [Form::Full, Form::Short] {
                load(form).suits(&setting.clients).map_err(wrong)?;
            }
            if settings.iter().any(|other| other.curve == setting.curve) {
                return Err(wrong(format!(
                    "two curves are called \"{}\": give one a name of its own",
                    setting.curve
                )));
            }
            settings.push(setting);
        }
        if settings.is_empty() {
            return Err(at(None, "a scenario has at least one [[curve]]".to_owned()));
        }
        let named: Vec<&str> = settings.iter().map(|setting| setting.curve.as_str()).collect();
        if let Some(wanted) = &read.capacity_of
            && !named.contains(&wanted.get_ref().as_str())
        {
            return Err(at(
                Some(wanted.span().start),
                format!(
                    "capacity_of names the curve \"{}\"; there are \"{}\"",
                    wanted.get_ref(),
                    named.join("\", \"")
                ),
            ));
        }
        for claim in &read.claim {
            let wrong = |what: String| at(Some(claim.span().start), what);
            let claim = claim.get_ref();
            claim.check(&curves, !factors.is_empty()).map_err(wrong)?;
            let each = settings.iter().zip(curves.iter().cycle());
            for (setting, _) in each.filter(|(_, curve)| claim.is_about(curve)) {
                claim.check_seconds(setting).map_err(wrong)?;
            }
        }
        let networks = settings.iter().flat_map(|setting| setting.clients.networks.numbers());
        let networks: Vec<String> = networks.collect::<BTreeSet<_>>().into_iter().collect();
        for (offset, path) in read.measures() {
            groups::check(path, &networks).map_err(|what| at(offset, what))?;
        }
        for (offset, path) in read.columns() {
            groups::check_column(path).map_err(|what| at(Some(offset), what))?;
        }
        for path in read.panels() {
            groups::check_panel(path).map_err(|what| at(None, what))?;
        }
        for bars in &read.bars {
            groups::check_bars(&bars.measure, &networks).map_err(|what| at(None, what))?;
        }
        let has_several = settings.iter().any(|setting| setting.clients.requests > 1.0);
        for (offset, measure, over) in read.quotients().filter(|_| has_several) {
            check_quotient(measure, over).map_err(|what| at(Some(offset), what))?;
        }
        Ok(Self {
            name: name.to_owned(),
            also: read.also,
            title: read.title,
            source: read.source,
            about: read.about.trim().to_owned(),
            panels: read.panel.unwrap_or_else(default_panels),
            bars: read.bars,
            tables: read.table.into_iter().map(Spanned::into_inner).collect(),
            claims: read.claim.into_iter().map(Spanned::into_inner).collect(),
            network: read.network,
            profile: read.profile,
            capacity_of: read.capacity_of.map(Spanned::into_inner),
            text: text.to_owned(),
            load: read.load.into_inner(),
            factors: factors.iter().map(|factor| factor.name.clone()).collect(),
            combinations: combinations.into_iter().map(|(combination, ..)| combination).collect(),
            settings,
            curves,
        })
    }

    /// Its curves as the file has them, which are those of every combination.
    pub fn base_curves(&self) -> impl Iterator<Item = &str> {
        self.curves.iter().map(String::as_str)
    }

    /// The levels of each of its factors, in the file's order.
    fn levels(&self) -> Vec<Vec<&str>> {
        let levels = |factor: usize| {
            let mut levels: Vec<&str> = Vec::new();
            for combination in &self.combinations {
                let level = combination.levels[factor].as_str();
                if !levels.contains(&level) {
                    levels.push(level);
                }
            }
            levels
        };
        (0..self.factors.len()).map(levels).collect()
    }

    /// The curve whose server's capacity a curve's rates are multiples of: its own, or the one that
    /// all share.
    #[must_use]
    pub fn measured_by<'a>(&'a self, setting: &'a Setting) -> &'a Setting {
        let shared = self.capacity_of.as_ref();
        shared
            .and_then(|curve| self.settings.iter().find(|other| other.curve == *curve))
            .unwrap_or(setting)
    }

    /// The load, as the paper had it or in minutes.
    #[must_use]
    pub fn load(&self, form: Form) -> Load {
        self.load.resolve(form)
    }
}

/// The line that holds the byte at `offset`, counted from 1.
fn line(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AcceptLimit, Arrivals, Fin, TimeWait, Treatment};

    const GOOD: &str = r#"title = "Overload"
source = "today"
[server]
backlog = 64
[load]
offered = [0.5, 2]
short = { duration_s = 3 }
[[curve]]
mechanism = "default"
[[curve]]
name = "impatient"
mechanism = "abort rst-syn"
clients = { timeout_s = 1, arrivals = { bursts = { burst_s = 10, silence_s = 5 } } }
[[claim]]
says = "more"
source = "us"
curve = "impatient"
than = "default"
measure = "replies_per_s"
offered = [1, 5]
at_least = 1.1
"#;

    fn refused(change: impl Fn(&str) -> String) -> String {
        Scenario::parse("s", "s.toml", &change(GOOD)).unwrap_err().to_string()
    }

    #[test]
    fn a_curve_is_the_scenario_with_its_own_changes() {
        let scenario = Scenario::parse("s", "s.toml", GOOD).unwrap();
        let [first, second] = &scenario.settings[..] else { panic!("two curves") };
        assert_eq!(first.curve, "default");
        assert_eq!(first.clients.timeout_s, 10.0);
        assert_eq!(second.clients.timeout_s, 1.0);
        assert_eq!(second.treatment, Treatment::Mechanism("abort rst-syn".to_owned()));
        assert_eq!((second.server.backlog, second.server.accept_limit), (64, AcceptLimit::Inf));
        let load = scenario.load(Form::Short);
        assert_eq!((load.duration_s, load.warm_up_s), (3.0, None));
        assert_eq!(second.clients.arrivals, Arrivals::Bursts { burst_s: 10.0, silence_s: 5.0 });
        assert_eq!(scenario.load(Form::Full).duration_s, 120.0);
    }

    #[test]
    fn what_changes_a_point_is_another_experiment() {
        let read = |text: &str| Scenario::parse("s", "s.toml", text).unwrap();
        let runs_what =
            |from: &str, to: &str| read(GOOD).runs_what(&read(&GOOD.replacen(from, to, 1)));
        for (from, to) in [
            ("says = \"more\"", "says = \"less\""),
            ("offered = [0.5, 2]", "offered = [1]"),
            ("[load]", "[load]\nduration_s = 7\nseed = 7"),
        ] {
            assert!(runs_what(from, to), "{to}");
        }
        for (from, to) in [
            ("backlog = 64", "backlog = 65"),
            ("[server]", "profile = true\n[server]"),
            ("[load]", "[load]\nwarm_up_s = 7"),
            ("duration_s = 3", "duration_s = 3, warm_up_s = 7"),
        ] {
            assert!(!runs_what(from, to), "{to}");
        }
    }

    #[test]
    fn what_shed_leaves_open_is_as_if_it_were_said() {
        let with = |keys: &str| {
            let curve = "mechanism = \"default\"";
            let sheds = format!("name = \"default\"\n{curve}\nshed = {{ p = 0.1, {keys} }}");
            Scenario::parse("s", "s.toml", &GOOD.replacen(curve, &sheds, 1)).unwrap()
        };
        let open = with("refuse = \"rst\"");
        assert!(open.runs_what(&with("refuse = \"rst\", attempts = 1")));
        assert!(!open.runs_what(&with("refuse = \"rst\", attempts = 5")));
    }

    #[test]
    fn a_trace_is_the_same_wherever_it_lies_and_two_are_not_one() {
        let traces = |file: &str, first: &str, second: &str| {
            let curve = |name: &str, trace: &str| {
                format!(
                    "[[curve]]\nname = \"{name}\"\npeer = \"kernel\"\n\
                     clients = {{ arrivals = {{ trace = \"{trace}\" }} }}\n"
                )
            };
            let head = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n";
            let text = format!("{head}{}{}", curve("a", first), curve("b", second));
            Scenario::parse("s", file, &text).unwrap()
        };
        let two = traces("here/s.toml", "x.txt", "y.txt");
        assert!(two.runs_what(&traces("there/s.toml", "z/x.txt", "y.txt")));
        assert!(!two.runs_what(&traces("here/s.toml", "x.txt", "x.txt")));
        let told = two.recorded().unwrap_err().to_string();
        assert!(told.starts_with("here/x.txt: ") && told.contains("seconds, one a line"), "{told}");
        assert_eq!(Scenario::parse("s", "s.toml", GOOD).unwrap().recorded(), Ok(String::new()));
    }

    #[test]
    fn the_short_form_is_never_longer_than_the_full_one() {
        let lasts_s = |full: &str| {
            let text = GOOD.replace("short = { duration_s = 3 }", full);
            Scenario::parse("s", "s.toml", &text).unwrap().load(Form::Short).duration_s
        };
        assert_eq!([lasts_s(""), lasts_s("duration_s = 2")], [5.0, 2.0]);
    }

    #[test]
    fn rst_fin_is_part_of_what_is_done() {
        let text =
            GOOD.replace("mechanism = \"default\"", "mechanism = \"default\"\nfin = \"rst-fin\"");
        let text = text.replace("than = \"default\"", "than = \"default rst-fin\"");
        let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
        let [first, second] = &scenario.settings[..] else { panic!("two curves") };
        assert_eq!(
            (first.curve.as_str(), first.done()),
            ("default rst-fin", "default rst-fin".into())
        );
        assert_eq!((first.fin, second.fin), (Fin::Ends, Fin::HalfClose));
        assert_eq!(first.for_capacity().fin, Fin::HalfClose);
        let peer = text.replace("mechanism = \"default\"", "peer = \"kernel\"");
        let wrong = Scenario::parse("s", "s.toml", &peer).unwrap_err().to_string();
        assert!(wrong.starts_with("s.toml:8: ") && wrong.contains("Tidegate's"), "{wrong}");
    }

    #[test]
    fn who_holds_time_wait_is_part_of_what_is_done() {
        let first = "mechanism = \"default\"";
        let holder = |curve: &str| GOOD.replace(first, curve);
        let text =
            holder(&format!("{first}\nname = \"default\"\ntime_wait = \"negotiate-client\""));
        let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
        assert_eq!(scenario.settings[0].done(), "default, negotiate-client");
        assert_eq!(scenario.settings[0].for_capacity().time_wait, TimeWait::Today);
        let peer = refused(|_| holder("peer = \"kernel\"\ntime_wait = \"negotiate-server\""));
        assert!(peer.starts_with("s.toml:8: ") && peer.contains("give a mechanism"), "{peer}");
        let unknown = refused(|_| holder(&format!("{first}\ntime_wait = \"negotiate\"")));
        assert!(unknown.starts_with("s.toml:10: ") && unknown.contains("close-swap"), "{unknown}");
    }

    /// As `tidegate` refuses it, when every capacity has been measured.
    #[test]
    fn a_hook_that_cannot_carry_it_out_is_refused() {
        let with = |curve: &str| {
            let text =
                GOOD.replace("mechanism = \"default\"", &format!("name = \"default\"\n{curve}"));
            Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
        };
        for mechanism in ["auto", "rst-syn", "no-syn-drop", "lazy rst-syn", "abort rst-syn"] {
            let told = with(&format!("mechanism = \"{mechanism}\"\nhook = \"tcp\"")).unwrap_err();
            let begins = format!("s.toml:8: \"{mechanism}\" cannot be carried out at the tcp hook");
            assert!(told.starts_with(&begins), "{told}");
            assert_eq!(with(&format!("mechanism = \"{mechanism}\"\nhook = \"auto\"")), Ok(()));
        }
        for mechanism in ["default", "abort", "abort reserv", "abort early-syn-drop"] {
            assert_eq!(with(&format!("mechanism = \"{mechanism}\"\nhook = \"tcp\"")), Ok(()));
        }
        let holds = |mechanism: &str, hook: &str| {
            let hook = format!("mechanism = \"{mechanism}\"\nhook = \"{hook}\"");
            with(&format!("{hook}\ntime_wait = \"negotiate-server\""))
        };
        for mechanism in ["auto", "no-syn-drop"] {
            let told = holds(mechanism, "driver").unwrap_err();
            assert!(told.starts_with("s.toml:8: time_wait = \"negotiate-server\" and"), "{told}");
            assert_eq!(holds(mechanism, "ip"), Ok(()));
        }
        assert_eq!(holds("abort rst-syn", "driver"), Ok(()));
        let unknown = with("mechanism = \"abort\"\nhook = \"xdp\"").unwrap_err();
        assert!(unknown.contains("hook \"xdp\" is not auto, driver, ip or tcp"), "{unknown}");
    }

    #[test]
    fn steps_are_the_time_that_counts() {
        let steps = "steps = [{ lasts_s = 2, times = 0.5 }, { lasts_s = 7, times = 3 }]";
        let bursts = "bursts = { burst_s = 10, silence_s = 5 }";
        let several = refused(|text| text.replace(bursts, steps));
        assert!(several.starts_with("s.toml:10: ") && several.contains("offered = [1]"));
        let text = GOOD.replace(bursts, steps).replace("[0.5, 2]", "[1]");
        let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
        let clients = &scenario.settings[1].clients;
        assert!(clients.summary().ends_with("0.5× for 2 s, 3× for 7 s"), "{}", clients.summary());
        for form in [Form::Short, Form::Full] {
            let phases = scenario.load(form).phases(clients, 1.0);
            // The patience of these clients is less than what a calm start takes.
            assert_eq!((phases.warm_up.as_secs(), phases.duration.as_secs()), (1, 9));
        }
        let claim = "measure = \"replies_per_s\"";
        let part = |measure: &str| refused(|text| text.replace(claim, measure));
        assert!(part("measure = \"seconds.replies\"").contains("belong together"));
        assert!(part(&format!("{claim}\nseconds = [1, 2]")).contains("belong together"));
        assert!(part("measure = \"seconds.replies\"\nseconds = [2, 1]").contains("[2, 1]"));
    }

    #[test]
    fn bursts_count_in_whole_periods_after_the_first() {
        let load = |warm_up_s: &str| GOOD.replace("[load]", &format!("[load]{warm_up_s}"));
        for (key, expected_s) in [("", 15), ("\nwarm_up_s = 40", 40), ("\nwarm_up_s = 0", 0)] {
            let scenario = Scenario::parse("s", "s.toml", &load(key)).unwrap();
            let clients = &scenario.settings[1].clients;
            let phases = scenario.load(Form::Full).phases(clients, 1.0);
            assert_eq!((phases.warm_up.as_secs(), phases.duration.as_secs() % 15), (expected_s, 0));
        }
    }

    pub(super) const FACTORS: &str = r#"[[factor]]
name = "Server"
levels = [{ name = "quick" }, { name = "slow", short = true, server = { cost_us = 500 } }]
[[factor]]
name = "Patience"
levels = [{ name = "10 s" }, { name = "3 s", clients = { timeout_s = 3 } }]
[[curve]]
mechanism = "default""#;

    #[test]
    fn each_curve_has_each_combination_of_levels() {
        let first = "[[curve]]\nmechanism = \"default\"";
        let text = GOOD.replacen(first, FACTORS, 1);
        let scenario = Scenario::parse("s", "s.toml", &text).unwrap();
        let settings = scenario.settings.iter();
        let found: Vec<_> =
            settings.map(|s| (s.curve.as_str(), s.server.cost_us, s.clients.timeout_s)).collect();
        let right = [
            ("default, quick, 10 s", 0, 10.0),
            ("impatient, quick, 10 s", 0, 1.0),
            ("default, quick, 3 s", 0, 3.0),
            ("impatient, quick, 3 s", 0, 1.0),
            ("default, slow, 10 s", 500, 10.0),
            ("impatient, slow, 10 s", 500, 1.0),
            ("default, slow, 3 s", 500, 3.0),
            ("impatient, slow, 3 s", 500, 1.0),
        ];
        assert_eq!(found, right);
        assert_eq!(scenario.claims[0].curve, "impatient");
    }

    #[test]
    fn a_factor_without_levels_is_refused() {
        let with = |factor: &str| refused(|text| text.replacen("[[curve]]", factor, 1));
        let none = with("[[factor]]\nname = \"Server\"\nlevels = []\n[[curve]]");
        assert!(none.starts_with("s.toml:8: ") && none.contains("Server"), "{none}");
        let level = "{ name = \"a\" }";
        let factor = format!("[[factor]]\nname = \"S\"\nlevels = [{level}, {level}]\n[[curve]]");
        let twice = with(&factor);
        assert!(twice.starts_with("s.toml:8: ") && twice.contains("\"a\""), "{twice}");
    }

    #[test]
    fn attempts_are_no_share_of_requests_where_connections_have_several() {
        let within = "measure = \"answered_within_per_s.1500\"";
        let claim = GOOD
            .replace("measure = \"replies_per_s\"", &format!("{within}\nover = \"replies_per_s\""));
        let column = format!("{{ name = \"n\", {within}, over = \"offered_per_s\" }}");
        let table = format!("{GOOD}[[table]]\ntitle = \"t\"\ncolumns = [{column}]");
        for (text, line) in [(claim, 14), (table, 22)] {
            assert!(Scenario::parse("s", "s.toml", &text).is_ok(), "{text}");
            let several = text.replace("timeout_s = 1,", "timeout_s = 1, requests = 3,");
            let told = Scenario::parse("s", "s.toml", &several).unwrap_err().to_string();
            let is_placed = told.starts_with(&format!("s.toml:{line}: "));
            assert!(is_placed && told.contains("requests = 1"), "{told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
    }

    /// It would be 0 in every result, and a claim of it hold.
    #[test]
    fn a_misspelt_part_is_refused_wherever_a_number_is_asked_for() {
        let bad = "\"queue_drops_per_s.ListenQFullAtSYN\"";
        let measure = format!("measure = {bad}");
        let claim = GOOD.replace("measure = \"replies_per_s\"", &measure);
        let over = GOOD.replace("offered = [1, 5]", &format!("offered = [1, 5]\nover = {bad}"));
        let column = format!("columns = [{{ name = \"n\", {measure} }}]");
        let table = format!("{GOOD}[[table]]\ntitle = \"t\"\n{column}");
        let panel = format!("{GOOD}[[panel]]\n{measure}");
        let bars = format!("{GOOD}[[bars]]\ntitle = \"t\"\n{measure}");
        for (text, place) in
            [(claim, ":14"), (over, ":14"), (table, ":22"), (panel, ""), (bars, "")]
        {
            let told = Scenario::parse("s", "s.toml", &text).unwrap_err().to_string();
            let begins = format!("s.toml{place}: queue_drops_per_s has no part");
            assert!(told.starts_with(&begins) && told.contains("ListenQFullAtSyn\""), "{told}");
        }
    }

    /// After every run of it a claim of others would be undecided.
    #[test]
    fn a_claim_is_about_seconds_that_each_of_its_curves_has() {
        let steps = "{ steps = [{ lasts_s = 2, times = 0.5 }, { lasts_s = 7.5, times = 3 }] }";
        let of_all = format!("[clients]\narrivals = {steps}\n[load]");
        let bursts = "{ bursts = { burst_s = 10, silence_s = 5 } }";
        let one_rate = GOOD.replace("[0.5, 2]", "[1]");
        let [none, mine, all] = [
            one_rate.replace("[load]", &of_all),
            one_rate.replace(bursts, steps),
            one_rate.replace("[load]", &of_all).replace(bursts, steps),
        ];
        let with = |text: &str, keys: &str| {
            let text = text.replace("measure = \"replies_per_s\"", keys);
            Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
        };
        let until = |second: u32| format!("measure = \"seconds.replies\"\nseconds = [3, {second}]");
        assert_eq!(with(&all, &until(8)), Ok(()));
        for (text, keys, told) in [
            (&all, until(9), "s.toml:16: a claim is about the second 9, and the steps of"),
            (&none, until(8), "s.toml:16: a claim is about seconds of \"impatient\", "),
            (&mine, until(8), "s.toml:14: a claim is about seconds of \"default\", "),
            (
                &all,
                "measure = \"seconds.replies.7\"\nseconds = [3, 8]".to_owned(),
                "s.toml:16: seconds.replies.7 is of one second, and seconds say of which",
            ),
            (
                &all,
                format!("{}\nover = \"seconds.started.7\"", until(8)),
                "s.toml:16: seconds.started.7 is of one second, and seconds say of which",
            ),
        ] {
            let error = with(text, &keys).unwrap_err();
            assert!(error.starts_with(told) && error.lines().count() == 1, "{error}");
        }
    }

    /// A table would have the sum of all seconds, as a rate, and a panel nothing.
    #[test]
    fn a_table_has_one_second_and_a_panel_all() {
        let with = |more: String| {
            let text = format!("{GOOD}{more}");
            Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
        };
        let table = |keys: &str| {
            with(format!("[[table]]\ntitle = \"t\"\ncolumns = [{{ name = \"n\", {keys} }}]"))
        };
        let panel = |measure: &str| with(format!("[[panel]]\nmeasure = \"{measure}\""));
        let second = "measure = \"seconds.failed.7\"";
        assert_eq!(table(&format!("{second}, over = \"seconds.started.7\"")), Ok(()));
        for keys in
            ["measure = \"seconds.failed\"", &format!("{second}, over = \"seconds.failed\"")]
        {
            let told = table(keys).unwrap_err();
            let is_placed = told.starts_with("s.toml:22: seconds.failed has a number each second");
            assert!(is_placed && told.ends_with("as in \"seconds.failed.7\""), "{told}");
        }
        assert_eq!(panel("seconds.failed"), Ok(()));
        let told = panel("seconds.failed.7").unwrap_err();
        assert!(told.ends_with("and a panel of all: ask for seconds.failed"), "{told}");
    }

    #[test]
    fn a_number_of_networks_is_one_of_the_scenarios() {
        let asks = |part: &str, networks: &str| {
            let measure = format!("measure = \"networks.{part}\"");
            let text = GOOD.replace("measure = \"replies_per_s\"", &measure);
            let text = text.replacen("[load]", &format!("[clients]\n{networks}[load]"), 1);
            Scenario::parse("s", "s.toml", &text).map(drop).map_err(|error| error.to_string())
        };
        let two =
            "networks = [{ name = \"a\", share = 1 }, { name = \"b\", share = 1, networks = 2 }]\n";
        assert_eq!(asks("b.success_least", two), Ok(()));
        let told = asks("a.success_least", two).unwrap_err();
        assert!(told.starts_with("s.toml:16: networks has no part \"a.success_least\""), "{told}");
        assert!(told.contains("\"a.success\"") && told.contains("\"b.success_most\""), "{told}");
        let told = asks("a.success", "").unwrap_err();
        assert!(told.ends_with("networks has no part \"a.success\"; there are none"), "{told}");
    }

    #[test]
    fn a_peak_is_of_one_curve() {
        let told = refused(|text| {
            let several = "than = [\"default\", \"impatient\"]\ntake = \"peak\"";
            text.replace("than = \"default\"", several)
        });
        assert!(told.starts_with("s.toml:14: peak is of one curve"), "{told}");
        let told = refused(|text| {
            let peak = text.replace("than = \"default\"", "than = \"default\"\ntake = \"peak-at\"");
            peak.replacen("[[curve]]\nmechanism = \"default\"", FACTORS, 1)
        });
        assert!(told.contains("peak-at is of one curve, and factors"), "{told}");
    }

    #[test]
    fn what_is_comparable_somewhere_is_not_so_everywhere_and_has_a_bound() {
        let with = |keys: &str| {
            let text = GOOD.replace("than = \"default\"", &format!("than = \"default\"\n{keys}"));
            Scenario::parse("s", "s.toml", &text).map_err(|error| error.to_string())
        };
        let on = "comparable_on = [\"linux-2.4\"]";
        let told = with(on).unwrap_err();
        assert!(told.starts_with("s.toml:14: ") && told.contains("not_comparable"), "{told}");
        let keys = format!("not_comparable = \"no such queue\"\n{on}");
        let claim = &with(&keys).unwrap().claims[0];
        assert_eq!(claim.not_comparable_on(None), Some("no such queue"));
        assert_eq!(claim.not_comparable_on(Some("linux-6")), Some("no such queue"));
        assert_eq!(claim.not_comparable_on(Some("linux-2.4")), None);
        let told = with(&keys.replace("linux-2.4", "linux-2.5")).unwrap_err();
        let names =
            "the TCP \"linux-2.5\", which no simulated machine has; there are \"linux-2.4\"";
        assert!(told.starts_with("s.toml:14: ") && told.contains(names), "{told}");
        let unbounded = GOOD.replace("at_least = 1.1", &keys);
        let told = Scenario::parse("s", "s.toml", &unbounded).unwrap_err().to_string();
        assert!(told.contains("give at_least or at_most"), "{told}");
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_fix() {
        let unknown = refused(|text| text.replace("backlog", "backlogg"));
        assert!(unknown.starts_with("s.toml:4: ") && unknown.contains("backlogg"), "{unknown}");
        let lacks = refused(|text| text.replace("source = \"today\"", ""));
        assert!(lacks.contains("`source`; docs/experiments.md has every key"), "{lacks}");
        let rate = refused(|text| text.replace("[0.5, 2]", "[0.5, -2]"));
        assert!(rate.starts_with("s.toml:5: ") && rate.contains("-2"), "{rate}");
        let bursts = refused(|text| text.replace("burst_s = 10", "burst_s = 0"));
        assert!(bursts.starts_with("s.toml:10: ") && bursts.contains("above 0 s"), "{bursts}");
        let server = refused(|text| text.replace("backlog = 64", "kind = \"iis\""));
        assert!(server.starts_with("s.toml:4: ") && server.contains("nginx"), "{server}");
        let twice = refused(|text| text.replace("impatient", "default"));
        assert!(twice.starts_with("s.toml:10: ") && twice.contains("name"), "{twice}");
        let claim = refused(|text| text.replace("than = \"default\"", "than = \"defualt\""));
        assert!(claim.starts_with("s.toml:14: ") && claim.contains("defualt"), "{claim}");
        let capacity = refused(|text| format!("capacity_of = \"nobody\"\n{text}"));
        assert!(capacity.starts_with("s.toml:1: ") && capacity.contains("impatient"), "{capacity}");
        let abort = "mechanism = \"abort rst-syn\"";
        let hook = refused(|text| text.replace(abort, &format!("{abort}\nhook = \"tcp\"")));
        let told = hook.contains("\"abort rst-syn\" cannot be carried out at the tcp hook");
        assert!(hook.starts_with("s.toml:10: ") && told, "{hook}");
        let close = refused(|text| text.replace("timeout_s = 1", "close = \"later\""));
        let told = close.contains("later") && close.contains("client-close");
        assert!(close.starts_with("s.toml:13: ") && told, "{close}");
        assert_eq!((unknown.lines().count(), close.lines().count()), (1, 1));
    }
}
