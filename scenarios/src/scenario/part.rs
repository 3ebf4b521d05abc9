// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of a scenario: its short form, or no more of it than there is time for. Parts that are
//! run into one folder make the whole.

use std::iter::repeat_n;

use super::Scenario;
use crate::arrivals::Arrivals;
use crate::curve::Setting;
use crate::error::ScenarioError;
use crate::factor::Combination;
use crate::load::{Form, Load};

/// What of a scenario is run; by default its short form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// In minutes, or as its paper had it.
    pub form: Form,
    /// Names of levels and of curves. Of a factor that has any of them those levels are run, of
    /// another those that the form has; of the curves likewise, or all.
    pub only: Vec<String>,
    /// What is offered, in multiples of capacity, in place of what the form has.
    pub offered: Option<Vec<f64>>,
    /// How long attempts are counted at each, in s, in place of what the form has.
    pub duration_s: Option<f64>,
}

impl Part {
    /// All of one form.
    #[must_use]
    pub fn of(form: Form) -> Self {
        Self { form, ..Self::default() }
    }

    fn names(&self, name: &str) -> bool {
        self.only.iter().any(|only| only == name)
    }

    fn picks(&self, levels: &[&str], name: &str, is_of_form: bool) -> bool {
        if levels.iter().any(|level| self.names(level)) { self.names(name) } else { is_of_form }
    }

    fn has(&self, factors: &[Vec<&str>], combination: &Combination) -> bool {
        let mut levels = factors.iter().zip(combination.levels(self.form));
        levels.all(|(factor, (name, is_of_form))| self.picks(factor, name, is_of_form))
    }

    /// That a time which is given is one for which these curves can be counted.
    fn check_duration(&self, settings: &[Setting]) -> Result<(), String> {
        let by_steps = |one: &&Setting| matches!(one.clients.arrivals, Arrivals::Steps(_));
        match settings.iter().find(by_steps).filter(|_| self.duration_s.is_some()) {
            Some(setting) => Err(format!(
                "clients of \"{}\" come by steps, which last as long as they say: leave --duration out",
                setting.curve
            )),
            None => Ok(()),
        }
    }

    fn load(&self, scenario: &Scenario) -> Load {
        let load = scenario.load(self.form);
        Load {
            offered: self.offered.clone().unwrap_or(load.offered),
            duration_s: self.duration_s.unwrap_or(load.duration_s),
            ..load
        }
    }
}

impl Scenario {
    /// No more of it, and the load that goes with it.
    ///
    /// # Errors
    /// [`ScenarioError::Part`]: a name that it does not have, a load or a time that it cannot have, or a
    /// curve left out whose server's capacity all others' rates are multiples of.
    pub fn part(&self, part: &Part) -> Result<(Self, Load), ScenarioError> {
        let wrong = |what: String| ScenarioError::Part { scenario: self.name.clone(), what };
        let factors = self.levels();
        let curves: Vec<&str> = self.base_curves().collect();
        let known = factors.iter().flatten().chain(&curves);
        if let Some(other) = part.only.iter().find(|name| !known.clone().any(|one| one == name)) {
            let there_are: Vec<_> = known.map(|name| format!("\"{name}\"")).collect();
            let there_are = there_are.join(", ");
            return Err(wrong(format!("it has no \"{other}\"; there are {there_are}")));
        }
        let combinations: Vec<bool> =
            self.combinations.iter().map(|one| part.has(&factors, one)).collect();
        let curves: Vec<bool> = curves.iter().map(|name| part.picks(&curves, name, true)).collect();
        let cut = self.cut(&combinations, &curves);
        if let Some(measured) = &cut.capacity_of
            && cut.settings.iter().all(|setting| setting.curve != *measured)
        {
            let what = format!("its rates are multiples of what \"{measured}\" can do");
            return Err(wrong(format!("{what}: name that, too")));
        }
        let load = part.load(self);
        let mut clients = cut.settings.iter().map(|setting| &setting.clients);
        load.check().and_then(|()| clients.try_for_each(|of| load.suits(of))).map_err(wrong)?;
        part.check_duration(&cut.settings).map_err(wrong)?;
        Ok((cut, load))
    }

    /// With those of its combinations and curves for which it says so.
    fn cut(&self, combinations: &[bool], curves: &[bool]) -> Self {
        let each = combinations.iter().flat_map(|has| repeat_n(has, curves.len()));
        let has: Vec<bool> =
            each.zip(curves.iter().cycle()).map(|(one, other)| *one && *other).collect();
        Self {
            settings: kept(&self.settings, &has),
            combinations: kept(&self.combinations, combinations),
            curves: kept(&self.curves, curves),
            ..self.clone()
        }
    }
}

fn kept<T: Clone>(all: &[T], has: &[bool]) -> Vec<T> {
    all.iter().zip(has).filter(|(_, has)| **has).map(|(one, _)| one.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::FACTORS;

    const LOAD: &str = r#"title = "Overload"
source = "today"
[load]
offered = [0.5, 2]
short = { duration_s = 3, offered = [2] }
"#;

    fn whole() -> String {
        format!("{LOAD}{FACTORS}\n[[curve]]\nmechanism = \"abort\"\n")
    }

    fn scenario(text: &str) -> Scenario {
        Scenario::parse("s", "s.toml", text).expect("a scenario")
    }

    fn only(names: &[&str], form: Form) -> Part {
        Part { only: names.iter().map(|name| (*name).to_owned()).collect(), ..Part::of(form) }
    }

    fn curves(part: &Part) -> Vec<String> {
        let (cut, _) = scenario(&whole()).part(part).expect("a part");
        cut.settings.iter().map(|setting| setting.curve.clone()).collect()
    }

    fn refused(text: &str, part: &Part) -> String {
        scenario(text).part(part).unwrap_err().to_string()
    }

    #[test]
    fn what_is_named_of_a_factor_is_run_with_all_that_the_form_has_of_the_others() {
        assert_eq!(curves(&Part::of(Form::Full)).len(), 8);
        let slow =
            ["default, slow, 10 s", "abort, slow, 10 s", "default, slow, 3 s", "abort, slow, 3 s"];
        assert_eq!(curves(&Part::default()), slow);
        assert_eq!(curves(&only(&["slow"], Form::Full)), slow);
        let quick = ["default, quick, 3 s", "abort, quick, 3 s"];
        assert_eq!(curves(&only(&["quick", "3 s"], Form::Short)), quick);
        let aborts = ["abort, slow, 10 s", "abort, slow, 3 s"];
        assert_eq!(curves(&only(&["abort"], Form::Short)), aborts);
        let both = ["abort, quick, 10 s", "abort, slow, 10 s"];
        assert_eq!(curves(&only(&["abort", "quick", "slow", "10 s"], Form::Short)), both);
    }

    /// So that a part may be cut once more, as a form's is.
    #[test]
    fn a_part_is_a_scenario() {
        let (half, _) = scenario(&whole()).part(&only(&["abort", "3 s"], Form::Full)).unwrap();
        let (quarter, _) = half.part(&only(&["quick"], Form::Full)).unwrap();
        assert_eq!(quarter.settings.len(), 1);
        assert_eq!(quarter.settings[0].curve, "abort, quick, 3 s");
        assert_eq!(quarter.base_curves().collect::<Vec<_>>(), ["abort"]);
        assert!(half.part(&only(&["default"], Form::Full)).is_err());
    }

    #[test]
    fn what_is_not_said_of_load_is_as_the_form_has_it() {
        let load = |part: Part| {
            let (_, load) = scenario(&whole()).part(&part).unwrap();
            (load.offered, load.duration_s)
        };
        assert_eq!(load(Part::default()), (vec![2.0], 3.0));
        assert_eq!(load(Part::of(Form::Full)), (vec![0.5, 2.0], 120.0));
        let loads = Part { offered: Some(vec![1.5, 5.0]), ..Part::default() };
        assert_eq!(load(loads), (vec![1.5, 5.0], 3.0));
        let shorter = Part { duration_s: Some(30.0), ..Part::of(Form::Full) };
        assert_eq!(load(shorter), (vec![0.5, 2.0], 30.0));
    }

    #[test]
    fn what_is_wrong_with_a_part_is_told_in_a_line() {
        let unknown = refused(&whole(), &only(&["abort", "nginx"], Form::Full));
        assert_eq!(
            unknown,
            "s: it has no \"nginx\"; there are \"quick\", \"slow\", \"10 s\", \"3 s\", \
             \"default\", \"abort\""
        );
        let offered = |offered| Part { offered: Some(offered), ..Part::default() };
        assert!(refused(&whole(), &offered(vec![2.0, 1.0])).contains("rise"));
        assert!(refused(&whole(), &offered(vec![0.0])).contains("impossible rate"));
        let endless = Part { duration_s: Some(1e9), ..Part::default() };
        assert!(refused(&whole(), &endless).contains("86400"));
    }

    #[test]
    fn rates_stay_multiples_of_what_they_were() {
        let curves = "[[curve]]\nmechanism = \"default\"\n[[curve]]\nmechanism = \"abort\"\n";
        let text = format!("capacity_of = \"default\"\n{LOAD}{curves}");
        let without = refused(&text, &only(&["abort"], Form::Full));
        assert!(without.contains("\"default\" can do: name that, too"), "{without}");
        assert!(scenario(&text).part(&only(&["default"], Form::Full)).is_ok());
    }

    fn by_steps() -> String {
        let steps = "[clients]\narrivals = { steps = [{ lasts_s = 2, times = 0.5 }] }\n[load]";
        whole().replace("[load]", steps).replace("[0.5, 2]", "[1]").replace("[2]", "[1]")
    }

    /// It would have no effect, and a point take as long as ever.
    #[test]
    fn steps_take_no_other_time() {
        let shorter = Part { duration_s: Some(5.0), ..Part::default() };
        let told = refused(&by_steps(), &shorter);
        assert!(told.starts_with("s: clients of \"default, slow, 10 s\" come by steps"), "{told}");
        assert!(told.contains("leave --duration out"), "{told}");
        assert!(scenario(&by_steps()).part(&Part::default()).is_ok());
        let others = "mechanism = \"abort\"\nclients = { arrivals = \"poisson\" }";
        let both = by_steps().replace("mechanism = \"abort\"", others);
        let of_others = Part { duration_s: Some(5.0), ..only(&["abort"], Form::Short) };
        assert!(scenario(&both).part(&of_others).is_ok());
    }

    #[test]
    fn steps_are_of_one_rate_in_a_part_too() {
        let text = by_steps();
        let several = Part { offered: Some(vec![1.0, 2.0]), ..Part::default() };
        assert!(refused(&text, &several).contains("several"));
        assert!(
            scenario(&text).part(&Part { offered: Some(vec![3.0]), ..Part::default() }).is_ok()
        );
    }
}
