// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the screen of `tidegate top` looks like: how clients have fared of late, every listening socket,
//! and why.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

use super::watch::{Cause, Fates, Watch};
use crate::status::{ListenerStatus, OverloadStatus, Queue, Status};

/// Rows of the three curves, with their titles.
const CURVES_ROWS: u16 = 7;
/// A screen of so many columns has room for all that is told of a listener.
const WIDE: u16 = 100;

/// What became of clients: its name, of which fate, and its colour.
type Curve = (&'static str, fn(&Fates<f64>) -> f64, Color);

const CURVES: [Curve; 3] = [
    ("let in", |fates| fates.let_in, Color::Green),
    ("refused", |fates| fates.refused, Color::Yellow),
    ("left in silence", |fates| fates.silent, Color::Red),
];

fn phase_colour(phase: &str) -> Color {
    match phase {
        "burst" => Color::Yellow,
        "persistent" => Color::Red,
        "recovering" => Color::Cyan,
        _ => Color::Green,
    }
}

fn rate(per_s: f64) -> String {
    format!("{per_s:.0}")
}

fn header(status: Option<&Status>) -> Line<'static> {
    let who = match status {
        None => "no guard stands here".red(),
        Some(Status { daemon_pid: Some(pid), .. }) => format!("daemon {pid}").into(),
        Some(status) if status.attached.is_empty() => "no guard stands here".red(),
        Some(_) => "no daemon: the guard stands alone".yellow(),
    };
    let guards = status.map_or(&[][..], |status| &status.guards);
    let guards = guards.iter().map(|guard| format!("; {}", guard.title()).into());
    let spans = [" tidegate ".bold().reversed(), " ".into(), who].into_iter().chain(guards);
    Line::from_iter(spans)
}

/// How one fate has become more and less; all on the same scale.
fn draw_curve(frame: &mut Frame<'_>, area: Rect, watch: &Watch, most: u64, curve: Curve) {
    let (name, of, colour) = curve;
    let now = watch.history.back().map_or_else(|| "–".to_owned(), |now| rate(of(now)));
    let title = Line::from(vec![Span::styled(now, colour).bold(), format!(" {name}/s").into()]);
    let block = Block::bordered().title(title).border_style(Style::new().dim());
    let width = usize::from(area.width.saturating_sub(2));
    let skipped = watch.history.len().saturating_sub(width);
    let data: Vec<u64> = watch.history.iter().skip(skipped).map(|seen| of(seen) as u64).collect();
    frame.render_widget(Sparkline::default().data(data).max(most).fg(colour).block(block), area);
}

fn draw_curves(frame: &mut Frame<'_>, area: Rect, watch: &Watch) {
    let all = watch.history.iter().flat_map(|seen| CURVES.map(|(_, of, _)| of(seen) as u64));
    let most = all.max().unwrap_or(0).max(1);
    let areas: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).areas(area);
    for (curve, area) in CURVES.into_iter().zip(areas) {
        draw_curve(frame, area, watch, most, curve);
    }
}

/// How full: red where the next one finds no room. The kernel takes one more than its limit.
fn queue(queue: &Queue, places: Option<u32>) -> Span<'static> {
    let limit = places.map_or(queue.limit, |places| places.min(queue.limit));
    let colour = match queue.length {
        length if length > queue.limit || places.is_some_and(|places| length >= places) => {
            Color::Red
        }
        length if 2 * length >= limit && length > 0 => Color::Yellow,
        _ => Color::Reset,
    };
    Span::styled(format!("{}/{limit}", queue.length), colour)
}

/// A column of the listening sockets: its title, its width, whether a narrow screen has it, and what it
/// says.
type Column = (&'static str, Constraint, bool, fn(&ListenerStatus, &Fates<f64>) -> Span<'static>);

/// What auto says while there is trouble.
fn by_auto(socket: &ListenerStatus, of: fn(&OverloadStatus) -> Option<f64>) -> Span<'static> {
    socket.overload.as_ref().and_then(of).map_or_else(|| "–".to_owned(), rate).into()
}

fn phase(socket: &ListenerStatus) -> Span<'static> {
    let phase = socket.overload.as_ref().map_or("–", |overload| overload.phase);
    Span::styled(phase, phase_colour(phase))
}

fn listen_queue(socket: &ListenerStatus) -> Span<'static> {
    let places = socket.overload.as_ref().and_then(|overload| overload.places);
    queue(&socket.listen_queue, places.or(socket.places))
}

const COLUMNS: [Column; 9] = [
    ("listener", Constraint::Fill(1), true, |socket, _| socket.address.clone().into()),
    ("phase", Constraint::Length(10), true, |socket, _| phase(socket)),
    ("new/s", Constraint::Length(8), false, |socket, _| by_auto(socket, |o| o.new_per_s)),
    ("taken/s", Constraint::Length(8), false, |socket, _| by_auto(socket, |o| o.drain_per_s)),
    ("let in/s", Constraint::Length(8), true, |_, fates| rate(fates.let_in).into()),
    ("refused/s", Constraint::Length(9), true, |_, fates| rate(fates.refused).into()),
    ("silent/s", Constraint::Length(8), true, |_, fates| rate(fates.silent).into()),
    ("listen queue", Constraint::Length(12), true, |socket, _| listen_queue(socket)),
    ("SYN queue", Constraint::Length(11), false, |socket, _| queue(&socket.syn_queue, None)),
];

/// Figures stand at the right of their column.
fn aligned(number: usize, span: Span<'static>) -> Line<'static> {
    if number < 2 { span.into() } else { Line::from(span).right_aligned() }
}

fn draw_sockets(frame: &mut Frame<'_>, area: Rect, sockets: &[(&ListenerStatus, Fates<f64>)]) {
    let is_shown = |(_, column): &(usize, &Column)| area.width >= WIDE || column.2;
    let columns: Vec<_> = COLUMNS.iter().enumerate().filter(is_shown).collect();
    let header = columns.iter().map(|(number, column)| aligned(*number, column.0.into()));
    let rows = sockets.iter().map(|(socket, fates)| {
        columns.iter().map(|(number, column)| aligned(*number, column.3(socket, fates))).collect()
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let widths = columns.iter().map(|(_, column)| column.1);
    frame.render_widget(Table::new(rows, widths).header(Row::from_iter(header).bold()), area);
}

fn right(title: &'static str) -> Line<'static> {
    Line::from(title).right_aligned()
}

fn draw_causes(frame: &mut Frame<'_>, area: Rect, causes: &[Cause]) {
    let header = Row::new([Line::from("why"), Line::from("verdict"), right("/s"), right("so far")]);
    let rows = causes.iter().map(|cause| {
        let row = Row::new([
            Line::from(cause.reason),
            Line::from(cause.verdict),
            Line::from(rate(cause.per_s)).right_aligned(),
            Line::from(cause.all.to_string()).right_aligned(),
        ]);
        if cause.per_s > 0.0 { row } else { row.dim() }
    });
    let widths = [
        Constraint::Length(28),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(14),
    ];
    frame.render_widget(Table::new(rows, widths).header(header.bold()), area);
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, watch: &Watch) {
    let sockets = watch.sockets();
    // With its header, and a row below.
    let sockets_rows = u16::try_from(sockets.len()).unwrap_or(u16::MAX).saturating_add(2);
    let [top, curves, listeners, causes, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(CURVES_ROWS),
        Constraint::Max(sockets_rows),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(header(watch.status.as_ref())), top);
    draw_curves(frame, curves, watch);
    draw_sockets(frame, listeners, &sockets);
    draw_causes(frame, causes, &watch.causes);
    frame.render_widget(Paragraph::new("q ends it".dim()), bottom);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::status::example::{guard, listener};

    fn drawn(width: u16, height: u16, watch: &Watch) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, watch)).expect("it is drawn");
        terminal.backend().to_string()
    }

    fn crowd() -> Watch {
        let mut watch = Watch::default();
        let begun = Instant::now();
        for second in 0..5 {
            let counted = [
                ("Room", "pass", second * 1000),
                ("NewFirst", "reset", second * 2100),
                ("WaitLimit", "drop", second * 80),
            ];
            let guards = vec![guard(vec![listener(&counted)], &counted)];
            let seen = Status { daemon_pid: Some(77), guards, ..Status::default() };
            watch.see(Some(seen), begun + Duration::from_secs(second));
        }
        watch
    }

    #[test]
    fn a_crowd_shows() {
        let screen = drawn(110, 18, &crowd());
        for expected in [
            " tidegate  daemon 77; * port 443: auto at driver",
            "1000 let in/s",
            "2100 refused/s",
            "80 left in silence/s",
            "192.0.2.1:443",
            "persistent     9000     6500     1000      2100       80        12/16       3/511",
            "NewFirst                     reset          2100           8400",
        ] {
            assert!(screen.contains(expected), "{expected:?} is in\n{screen}");
        }
    }

    #[test]
    fn a_narrow_screen_has_what_matters_most() {
        let screen = drawn(72, 18, &crowd());
        let expected = "192.0.2.1:443        persistent     1000      2100       80        12/16";
        assert!(screen.contains(expected), "{screen}");
    }

    #[test]
    fn that_nothing_stands_shows() {
        let mut watch = Watch::default();
        watch.see(None, Instant::now());
        assert!(drawn(80, 24, &watch).contains("no guard stands here"));
    }

    #[test]
    fn a_screen_may_be_small() {
        for (width, height) in [(1, 1), (20, 5), (40, 10)] {
            drawn(width, height, &crowd());
        }
    }
}
