// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The unknowns whose residuals are least, for functions that are a little uneven.
//!
//! Levenberg and Marquardt's step (Marquardt, *An algorithm for least-squares estimation of
//! nonlinear parameters*, 1963). Slopes are measured over a distance that is long enough for a
//! simulation's chance not to show.
//!
//! A crate would not make it shorter. `levenberg-marquardt` takes a Jacobian and knows neither
//! limits to an unknown nor to its step, ends on a relative change of the sum and not on the largest
//! residual, and has no way out for an error or for telling of a step: what is written here would
//! stand around it, and nalgebra under it. What it would replace, [`solve`], is Gaussian elimination
//! of as many unknowns as there are rules.

/// By how much an unknown is changed to see what it does.
const TRY: f64 = 0.2;
/// No unknown goes further in one step.
const STEP_MAX: f64 = 0.7;
/// So many steps in a row that lead nowhere are the end.
const ASTRAY_MAX: usize = 5;
const DAMPING: f64 = 1e-3;

/// How far to go.
pub(super) struct Limits {
    /// Residuals below this are none.
    pub small: f64,
    /// Steps at most.
    pub steps: usize,
    /// The furthest that an unknown may go from 0.
    pub away: f64,
}

/// Begins at 0. `residuals` takes several places at a time, so that they can be evaluated side by
/// side. `tell` hears of each step: its number, from 1, and the largest residual.
pub(super) fn least_squares<E>(
    unknowns: usize,
    limits: &Limits,
    mut residuals: impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
    tell: &mut dyn FnMut(usize, f64),
) -> Result<Vec<f64>, E> {
    let mut at = vec![0.0; unknowns];
    let mut here = only(residuals(std::slice::from_ref(&at))?);
    let mut slopes = measure_slopes(&at, &here, limits, &mut residuals)?;
    let (mut damping, mut astray) = (DAMPING, 0);
    for number in 1..=limits.steps {
        tell(number, largest(&here));
        if largest(&here) < limits.small || astray == ASTRAY_MAX {
            break;
        }
        let step = bounded_step(&slopes, &here, damping, |unknown, by| {
            at[unknown] * by.signum() >= limits.away
        });
        let go = |(at, by): (&f64, &f64)| {
            (at + by.clamp(-STEP_MAX, STEP_MAX)).clamp(-limits.away, limits.away)
        };
        let there_at: Vec<f64> = at.iter().zip(&step).map(go).collect();
        let there = only(residuals(std::slice::from_ref(&there_at))?);
        if square(&there) < square(&here) {
            (at, here) = (there_at, there);
            slopes = measure_slopes(&at, &here, limits, &mut residuals)?;
            (damping, astray) = ((damping / 10.0).max(1e-9), 0);
        } else {
            damping *= 10.0;
            astray += 1;
        }
    }
    Ok(at)
}

fn only(mut each: Vec<Vec<f64>>) -> Vec<f64> {
    each.pop().unwrap_or_default()
}

/// `slopes[unknown][residual]`.
fn measure_slopes<E>(
    at: &[f64],
    here: &[f64],
    limits: &Limits,
    residuals: &mut impl FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let by = |unknown: usize| if at[unknown] + TRY > limits.away { -TRY } else { TRY };
    let tried: Vec<Vec<f64>> = (0..at.len())
        .map(|unknown| {
            let mut tried = at.to_vec();
            tried[unknown] += by(unknown);
            tried
        })
        .collect();
    let found = residuals(&tried)?;
    let slope = |(unknown, there): (usize, Vec<f64>)| {
        there.iter().zip(here).map(|(there, here)| (there - here) / by(unknown)).collect()
    };
    Ok(found.into_iter().enumerate().map(slope).collect())
}

/// The damped step of those that can go where it leads: one that stands at its limit and is led
/// further stays, and the others make up for it. Left in, it would lead them astray: they would
/// count on what it cannot do.
fn bounded_step(
    slopes: &[Vec<f64>],
    here: &[f64],
    damping: f64,
    is_at_its_end: impl Fn(usize, f64) -> bool,
) -> Vec<f64> {
    let mut free: Vec<usize> = (0..slopes.len()).collect();
    loop {
        let of_the_free: Vec<&[f64]> = free.iter().map(|at| slopes[*at].as_slice()).collect();
        let found = step(&of_the_free, here, damping);
        let led = free.iter().zip(&found);
        let goes: Vec<usize> =
            led.clone().filter(|(at, by)| !is_at_its_end(**at, **by)).map(|(at, _)| *at).collect();
        if goes.len() == free.len() {
            let mut whole = vec![0.0; slopes.len()];
            led.for_each(|(at, by)| whole[*at] = *by);
            return whole;
        }
        free = goes;
    }
}

/// The damped step: (JᵀJ + damping) step = -Jᵀ residuals.
fn step(slopes: &[&[f64]], here: &[f64], damping: f64) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut rows: Vec<Vec<f64>> = slopes
        .iter()
        .enumerate()
        .map(|(place, slope)| {
            let mut row: Vec<f64> = slopes.iter().map(|other| dot(slope, other)).collect();
            row[place] += damping;
            row.push(-dot(slope, here));
            row
        })
        .collect();
    solve(&mut rows)
}

/// Gaussian elimination. The damping keeps every pivot above 0.
fn solve(rows: &mut [Vec<f64>]) -> Vec<f64> {
    let count = rows.len();
    for column in 0..count {
        let largest = (column..count)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()));
        rows.swap(column, largest.unwrap_or(column));
        let (above, below) = rows.split_at_mut(column + 1);
        let pivot = &above[column];
        for row in below {
            let times = row[column] / pivot[column];
            for (cell, above) in row.iter_mut().zip(pivot).skip(column) {
                *cell -= times * above;
            }
        }
    }
    let mut found = vec![0.0; count];
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|column| rows[row][column] * found[column]).sum();
        found[row] = (rows[row][count] - known) / rows[row][row];
    }
    found
}

fn square(each: &[f64]) -> f64 {
    each.iter().map(|each| each * each).sum()
}

fn largest(each: &[f64]) -> f64 {
    each.iter().fold(0.0, |largest, each| largest.max(each.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { small: 1e-6, steps: 60, away: 4.0 };

    fn found(unknowns: usize, of: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let each = |places: &[Vec<f64>]| Ok::<_, ()>(places.iter().map(|at| of(at)).collect());
        least_squares(unknowns, &LIMITS, each, &mut |_, _| {}).unwrap()
    }

    fn assert_near(found: &[f64], known: &[f64]) {
        for (found, known) in found.iter().zip(known) {
            assert!((found - known).abs() < 1e-4, "{found} for {known}");
        }
    }

    #[test]
    fn curved_functions_of_each_other_are_solved() {
        let of = |x: &[f64]| vec![x[0].exp() - 2.0 + 0.3 * x[1], x[1].exp() + x[0] * x[1] - 0.5];
        let at = found(2, of);
        assert!(largest(&of(&at)) < 1e-6, "{at:?}");
    }

    /// A cost that changes nothing must not keep the others from being found.
    #[test]
    fn an_unknown_without_effect_stays() {
        let at = found(3, |x| vec![x[0] + 2.0 * x[1] - 1.0, x[0] - x[1], 0.0]);
        assert_near(&at, &[1.0 / 3.0, 1.0 / 3.0, 0.0]);
    }

    /// The first can do no more than 4 of the 9 that are asked of it; the second, which does little
    /// for that and is asked for something else, is not to count on the rest.
    #[test]
    fn what_one_at_its_limit_cannot_do_is_not_counted_on() {
        let at = found(2, |x| vec![x[0] + 0.5 * x[1] - 9.0, x[1] - 0.5 * x[0]]);
        assert_near(&at, &[4.0, (0.5 * 5.0 + 2.0) / 1.25]);
    }

    /// What cannot be reached is approached as far as the limit.
    #[test]
    fn nothing_goes_further_than_its_limit() {
        let at = found(1, |x| vec![x[0] + 9.0]);
        assert_near(&at, &[-LIMITS.away]);
    }
}
