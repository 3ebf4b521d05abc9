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
/// The header of the listening sockets, and the row below them.
const AROUND_SOCKETS: u16 = 2;
/// Between two columns of a table.
const GAP: u16 = 1;
/// So much of a socket's address tells it from others, on a screen that has no room for all of it.
const ADDRESS_LEAST: u16 = 15;
/// What has led to verdicts: its name, the verdict, how often a second, how often so far.
const CAUSE_WIDTHS: [u16; 4] = [28, 8, 10, 14];

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
    let stands = status.is_some_and(|status| !status.attached.is_empty());
    let who = match status.and_then(Status::daemon) {
        Some(daemon) => Span::from(daemon),
        None if stands => "no daemon: the guard stands alone".yellow(),
        None => "no guard stands here".red(),
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

/// A column of the listening sockets: its title, its width if that is enough for what it says, its rank (the
/// higher, the wider a screen must be to have it), and what it says.
type Column = (&'static str, u16, usize, fn(&ListenerStatus, &Fates<f64>) -> Span<'static>);

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

/// The rank at which every column has room, and each address all of its own.
const WIDEST: usize = 5;

const COLUMNS: [Column; 9] = [
    ("listener", 8, 0, |socket, _| socket.address.clone().into()),
    ("phase", 10, 3, |socket, _| phase(socket)),
    ("new/s", 8, WIDEST, |socket, _| by_auto(socket, |o| o.new_per_s)),
    ("taken/s", 8, WIDEST, |socket, _| by_auto(socket, |o| o.drain_per_s)),
    ("let in/s", 8, 2, |_, fates| rate(fates.let_in).into()),
    ("refused/s", 9, 1, |_, fates| rate(fates.refused).into()),
    ("silent/s", 8, 4, |_, fates| rate(fates.silent).into()),
    ("listen queue", 12, 0, |socket, _| listen_queue(socket)),
    ("SYN queue", 11, WIDEST, |socket, _| queue(&socket.syn_queue, None)),
];

/// Figures stand at the right of their column.
fn aligned(number: usize, span: Span<'static>) -> Line<'static> {
    if number < 2 { span.into() } else { Line::from(span).right_aligned() }
}

/// How wide each column is: as wide as what it says, for a figure of which a part is missing is another.
fn widths(rows: &[Vec<Span<'static>>]) -> Vec<u16> {
    let said = |number: usize| rows.iter().map(move |row| row[number].width()).max().unwrap_or(0);
    let width = |(number, column): (usize, &Column)| column.1.max(said(number) as u16);
    COLUMNS.iter().enumerate().map(width).collect()
}

/// The columns of the highest rank for which there is room: all of them, or fewer and the address cut.
fn shown(room: u16, widths: &[u16]) -> Vec<usize> {
    let of_rank = |rank: usize| (0..COLUMNS.len()).filter(move |number| COLUMNS[*number].2 <= rank);
    let needed = |rank: usize| {
        let address = if rank == WIDEST { widths[0] } else { widths[0].min(ADDRESS_LEAST) };
        of_rank(rank).skip(1).fold(address, |sum, number| sum.saturating_add(widths[number] + GAP))
    };
    let rank = (1..=WIDEST).rev().find(|rank| needed(*rank) <= room).unwrap_or(0);
    of_rank(rank).collect()
}

fn draw_sockets(frame: &mut Frame<'_>, area: Rect, sockets: &[(&ListenerStatus, Fates<f64>)]) {
    // Where not all have room, the last row says of how many that is.
    let room = usize::from(area.height.saturating_sub(AROUND_SOCKETS));
    let rows_shown = if sockets.len() > room { room.saturating_sub(1) } else { sockets.len() };
    let cells = |(socket, fates): &(&ListenerStatus, Fates<f64>)| -> Vec<Span<'static>> {
        COLUMNS.iter().map(|column| column.3(socket, fates)).collect()
    };
    let rows: Vec<Vec<Span<'static>>> = sockets[..rows_shown].iter().map(cells).collect();
    let widths = widths(&rows);
    let columns = shown(area.width, &widths);
    let header = columns.iter().map(|&number| aligned(number, COLUMNS[number].0.into()));
    let rows = rows.into_iter().map(|row| {
        columns.iter().map(|&number| aligned(number, row[number].clone())).collect::<Row<'_>>()
    });
    let left_out = sockets.len() - rows_shown;
    let more = Row::new([Line::from(format!("and {left_out} more")).dim()]);
    let rows: Vec<Row<'_>> = rows.chain((left_out > 0).then_some(more)).collect();
    let constraint = |&number: &usize| match number {
        0 => Constraint::Fill(1),
        _ => Constraint::Length(widths[number]),
    };
    let table = Table::new(rows, columns.iter().map(constraint)).column_spacing(GAP);
    frame.render_widget(table.header(Row::from_iter(header).bold()), area);
}

fn right(title: &'static str) -> Line<'static> {
    Line::from(title).right_aligned()
}

fn draw_causes(frame: &mut Frame<'_>, area: Rect, causes: &[Cause]) {
    let all = CAUSE_WIDTHS.iter().fold(0, |sum, width| sum + width + GAP) - GAP;
    // A name may be cut; a figure is whole, or is left out.
    let columns = if area.width >= all { 4 } else { 3 };
    let header = [Line::from("why"), Line::from("verdict"), right("/s"), right("so far")];
    let header = Row::from_iter(header.into_iter().take(columns));
    let rows = causes.iter().map(|cause| {
        let cells = [
            Line::from(cause.reason),
            Line::from(cause.verdict),
            Line::from(rate(cause.per_s)).right_aligned(),
            Line::from(cause.all.to_string()).right_aligned(),
        ];
        let row = Row::from_iter(cells.into_iter().take(columns));
        if cause.per_s > 0.0 { row } else { row.dim() }
    });
    let others = CAUSE_WIDTHS[1..columns].iter().map(|width| Constraint::Length(*width));
    let widths = [Constraint::Max(CAUSE_WIDTHS[0])].into_iter().chain(others);
    frame.render_widget(Table::new(rows, widths).header(header.bold()), area);
}

/// The rows of so many sockets: half of all rows that there are, where they and the causes want more. The other
/// half is for why.
fn sockets_rows(sockets: usize, causes: usize, rows: u16) -> u16 {
    let of = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let wanted = of(sockets).saturating_add(AROUND_SOCKETS);
    let without_causes = rows.saturating_sub(of(causes).saturating_add(1));
    wanted.min(without_causes.max(rows / 2))
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, watch: &Watch) {
    let sockets = watch.sockets();
    let below_curves = frame.area().height.saturating_sub(CURVES_ROWS + 2);
    let [top, curves, listeners, causes, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(CURVES_ROWS),
        Constraint::Max(sockets_rows(sockets.len(), watch.causes.len(), below_curves)),
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
    use crate::status::GuardStatus;
    use crate::status::example::{Counted, guard, listener};

    fn drawn(width: u16, height: u16, watch: &Watch) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, watch)).expect("it is drawn");
        terminal.backend().to_string()
    }

    /// So many seconds of a crowd before the guard that `of` makes of what is counted.
    fn seen(seconds: u64, of: impl Fn(&[Counted]) -> GuardStatus) -> Watch {
        let mut watch = Watch::default();
        let begun = Instant::now();
        for second in 0..=seconds {
            let counted = [
                ("Room", "pass", second * 1000),
                ("NewFirst", "reset", second * 2100),
                ("WaitLimit", "drop", second * 80),
            ];
            let seen =
                Status { daemon_pid: Some(77), guards: vec![of(&counted)], ..Status::default() };
            watch.see(Some(seen), begun + Duration::from_secs(second));
        }
        watch
    }

    fn crowd() -> Watch {
        seen(4, |counted| guard(vec![listener(counted)], counted))
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

    /// Of nginx with a socket for each processor, say.
    #[test]
    fn many_sockets_leave_room_for_why() {
        let sockets = |number: u64| -> Vec<ListenerStatus> {
            let one = |socket_cookie| ListenerStatus { socket_cookie, ..listener(&[]) };
            (0..number).map(one).collect()
        };
        let screen = |number| drawn(110, 24, &seen(1, |counted| guard(sockets(number), counted)));
        let full = screen(30);
        assert!(full.contains("NewFirst ") && full.contains("WaitLimit "), "{full}");
        // Below the curves are 15 rows, of which three causes have four.
        assert!(full.contains("and 22 more "), "{full}");
        assert_eq!(full.matches("192.0.2.1:443").count(), 8, "{full}");
        let all = screen(9);
        assert!(!all.contains(" more ") && all.contains("NewFirst "), "{all}");
        assert_eq!(all.matches("192.0.2.1:443").count(), 9, "{all}");
        assert_eq!(sockets_rows(30, 20, 15), 7, "half, where there are many causes");
    }

    #[test]
    fn no_address_is_cut_for_a_column_that_may_be_left_out() {
        let address = "192.168.100.100:8443";
        let one = || ListenerStatus { address: address.to_owned(), ..listener(&[]) };
        let screen = |width| drawn(width, 18, &seen(1, |counted| guard(vec![one()], counted)));
        for (width, is_wide) in [(99, false), (100, false), (101, false), (102, true)] {
            let screen = screen(width);
            assert!(screen.contains(&format!("{address} ")), "{width}: {screen}");
            assert_eq!(screen.contains("SYN queue"), is_wide, "{width}: {screen}");
        }
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

    /// "24/4096" of 1024/4096 would be another queue.
    #[test]
    fn a_figure_is_whole_or_left_out_and_an_address_stays() {
        let one = || ListenerStatus {
            listen_queue: Queue { length: 1024, limit: 4096 },
            overload: None,
            ..listener(&[])
        };
        let watch = seen(4, |counted| guard(vec![one()], counted));
        for width in 29..110 {
            let screen = drawn(width, 18, &watch);
            let row = screen.lines().find(|line| line.contains("192.0.2.1:443"));
            let row = row.unwrap_or_else(|| panic!("{width}: {screen}"));
            let said: Vec<&str> = row.trim_matches('"').split_whitespace().collect();
            let known = ["192.0.2.1:443", "–", "0", "1024/4096", "3/511"];
            assert!(said.iter().all(|word| known.contains(word)), "{width}: {row}");
            assert!(said.contains(&"1024/4096"), "{width}: {row}");
        }
        let at_40 = drawn(40, 18, &crowd());
        assert!(at_40.contains("192.0.2.1:443          2100        12/16"), "{at_40}");
        assert!(at_40.contains("NewFirst") && !at_40.contains("so far"), "{at_40}");
    }
}
