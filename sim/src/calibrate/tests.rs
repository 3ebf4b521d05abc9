// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Costs, found again from what a machine of known costs measures.

use super::*;
use crate::costs::Costs;
use crate::spread::processors;

/// What this machine measures of itself.
fn measured_on(machine: &Machine) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for scenario in scenarios() {
        let load = scenario.load(Form::Short);
        for setting in &scenario.settings {
            let of = |offered| simulated(&scenario, setting, &load, machine, offered).unwrap();
            let capacity_per_s = of(None).capacity_per_s;
            points.push(of(Some((load.offered[0], capacity_per_s))));
        }
    }
    points
}

#[test]
#[ignore = "simulates for a minute"]
fn a_known_machine_is_found_again() {
    let today = Machine::today();
    // As far from where the fit begins as machines are from each other, in other directions.
    let known = Machine {
        cost_us_ns: 1000,
        wire_ns: 25_000,
        costs: Costs {
            interrupt_ns: 1800,
            wake_ns: 4500,
            request_ns: 960,
            request_again_ns: 448,
            child_ns: 1280,
            overflow_ns: 192,
            reset_ns: 1600,
            accept_ns: 1600,
            accept_none_ns: 192,
            close_ns: 4000,
            tux_ns: 8000,
            serve_ns: 2000,
            early_ns: 600,
            hook_ns: 500,
            transmit_ns: 450,
            ..today.costs
        },
        ..today
    };
    let found = fit(&measured_on(&known), today, processors(), &mut |_, _| {}).unwrap();
    for fixed in &found.fixed {
        let off = (fixed.simulated / fixed.measured).ln().abs();
        assert!(off < 2.0 * LIMITS.small, "{fixed:?}");
    }
    let near = |what: &str, within: f64, found: u64, known: u64| {
        let off = (found as f64 / known as f64 - 1.0).abs();
        assert!(off < within, "{what}: {found} ns for {known}");
    };
    let (costs, of) = (&found.machine.costs, &known.costs);
    near("cost", 0.03, found.machine.cost_us_ns, known.cost_us_ns);
    near("cable", 0.05, found.machine.wire_ns, known.wire_ns);
    near("accept", 0.1, costs.accept_ns, of.accept_ns);
    near("let in", 0.1, costs.child_ns, of.child_ns);
    near("write", 0.05, costs.write_ns, of.write_ns);
    near("serve", 0.05, costs.serve_ns, of.serve_ns);
    // What a SYN takes is told as a whole; how it divides into steps is less certain.
    near("a dropped SYN", 0.1, dropped_ns(costs), dropped_ns(of));
    near("a refused SYN", 0.1, refused_ns(costs), refused_ns(of));
}

/// SYNs of a flood come as the crowd looks at its clients, some three at a time: what one that comes
/// alone would cost nobody measures.
const SHARE_AN_INTERRUPT: u64 = 3;

/// One of them that is dropped by TCP.
fn dropped_ns(costs: &Costs) -> u64 {
    let Costs { interrupt_ns, frame_ns, buffer_ns, ip_ns, look_up_ns, refuse_ns, .. } = costs;
    interrupt_ns / SHARE_AN_INTERRUPT + frame_ns + buffer_ns + ip_ns + look_up_ns + refuse_ns
}

/// One of them that is refused at the entry of IP.
fn refused_ns(costs: &Costs) -> u64 {
    let Costs { interrupt_ns, frame_ns, buffer_ns, hook_ns, transmit_ns, .. } = costs;
    interrupt_ns / SHARE_AN_INTERRUPT + frame_ns + buffer_ns + hook_ns + transmit_ns
}

#[test]
fn what_was_not_measured_is_told() {
    let points = measured_on(&Machine::today());
    let without: Vec<Point> =
        points.into_iter().filter(|point| point.curve != "refused at the driver").collect();
    let error =
        fit(&without, Machine::today(), processors(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("refused at the driver"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

/// A server that served nothing has not told what a SYN costs.
#[test]
fn a_number_that_is_none_fixes_nothing() {
    let mut points = measured_on(&Machine::today());
    for point in &mut points {
        if point.curve == "dropped in batches" {
            point.replies_per_s = 0.0;
        }
    }
    let error =
        fit(&points, Machine::today(), processors(), &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("a SYN that TCP drops"), "{error}");
}

/// Replies of so many per cent, and how many times today's their costs are.
fn fixed(measured: f64, simulated: f64, scale: f64) -> Fixed {
    let (unit, between) = (Number::Replies.unit(), (measured - 4.0, measured + 9.0));
    Fixed { costs: "", by: "", unit, measured, between, simulated, scale }
}

/// A number that the nearest costs miss by more than a twentieth, however far its rounds were apart.
#[test]
fn what_no_costs_explain_is_a_contradiction() {
    let contradicts = |simulated| fixed(60.0, simulated, 1.0).contradicts();
    assert_eq!([57.5, 60.0, 62.5].map(contradicts), [false; 3]);
    assert_eq!([56.5, 64.0].map(contradicts), [true; 2]);
}

/// A cost that would have to be more than fifty times today's.
#[test]
fn a_cost_at_its_upper_limit_excuses_nothing() {
    let contradicts = |simulated| fixed(60.0, simulated, LIMITS.away.exp()).contradicts();
    assert_eq!([80.0, 99.5].map(contradicts), [true; 2]);
    assert!(!contradicts(61.0), "it explains what was measured");
}

/// Replies above the capacity tell of a cost that is nothing; fewer replies than without any cost
/// tell of other costs, and so does whatever is not a share of the capacity.
#[test]
fn a_cost_at_its_lower_limit_excuses_what_it_does_not_matter_for() {
    let least = |measured, simulated| fixed(measured, simulated, (-LIMITS.away).exp());
    assert!(!least(107.0, 99.5).contradicts());
    assert!(fixed(107.0, 99.5, 1.0).contradicts(), "it can be less");
    assert!(least(60.0, 50.0).contradicts(), "others take too much");
    assert!(least(60.0, 99.5).contradicts(), "it can be more");
    let capacity = Fixed { unit: Number::Capacity.unit(), ..least(6900.0, 6300.0) };
    assert!(capacity.contradicts());
}
