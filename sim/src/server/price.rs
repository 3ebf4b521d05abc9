// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a connection's turn costs.

use tidegate_client::Close;

use super::Turn;
use crate::flow::Flow;
use crate::machine::Program;
use crate::spent::Took;
use crate::stack::Host;

impl Host {
    pub(super) fn userver_takes(&self, flow: &Flow, turn: Turn) -> Took {
        let (costs, conn) = (&self.costs, &flow.conn);
        let is_knot = matches!(self.app.program, Program::KnotC | Program::KnotA);
        let knot_ns = if is_knot { costs.knot_ns } else { 0 };
        let serve_ns = || costs.serve_ns + knot_ns + self.work_ns(flow);
        let (socket_ns, application_ns) = match turn {
            Turn::Read { writes: false } => (costs.read_ns, serve_ns()),
            Turn::Read { writes: true } => (costs.read_ns + self.write_ns(flow, true), serve_ns()),
            Turn::Write => (self.write_ns(flow, false), 0),
            // A read that finds the end copies nothing.
            Turn::ClientClose if conn.fin_seen => (costs.read_ns * 3 / 2 + costs.close_ns, 0),
            Turn::ClientClose => (costs.read_ns * 3 / 2, 0),
            Turn::Close => (costs.read_ns / 2 + costs.close_ns, 0),
            Turn::Nothing => (costs.read_ns / 2, 0),
        };
        let close_ns = if self.closes_after(flow, turn) { costs.close_ns } else { 0 };
        Took { socket_ns: socket_ns + close_ns, application_ns, ..Took::default() }
    }

    /// Whether the server closes in the same turn: after the last reply, where clients leave it to
    /// the server.
    fn closes_after(&self, flow: &Flow, turn: Turn) -> bool {
        let conn = &flow.conn;
        let (page, bytes) = self.to_write(flow, matches!(turn, Turn::Read { .. }));
        let is_last = match turn {
            Turn::Read { writes: true } => {
                conn.served + 1 >= flow.count && bytes == self.pages.length(page)
            }
            Turn::Write => conn.served >= flow.count && bytes == conn.left,
            _ => false,
        };
        self.ending == Close::Server && is_last
    }

    /// Four fifths of a request are its reply's, the rest its end's.
    pub(super) fn tux_takes(&self, flow: &Flow, turn: Turn) -> Took {
        let costs = &self.costs;
        let whole_ns = costs.tux_ns;
        let (socket_ns, application_ns) = match turn {
            Turn::Read { .. } => {
                let more_ns = self.file_ns(flow, true) + self.kilobytes_ns(flow, true);
                (whole_ns / 2 + more_ns, whole_ns * 3 / 10 + self.work_ns(flow))
            }
            Turn::Write => (whole_ns / 10 + self.kilobytes_ns(flow, false), 0),
            Turn::ClientClose | Turn::Close => (whole_ns / 5, 0),
            Turn::Nothing => (whole_ns / 10, 0),
        };
        let close_ns = if self.closes_after(flow, turn) { whole_ns / 5 } else { 0 };
        Took { socket_ns: socket_ns + close_ns, application_ns, ..Took::default() }
    }

    /// The work for a request that is still to be read, and for its page.
    fn work_ns(&self, flow: &Flow) -> u64 {
        let (page, _) = self.to_write(flow, true);
        self.app.cost_ns + self.pages.computed_ns(page)
    }

    /// What writing takes: of the reply to a request that is still to be read, or of the one under
    /// way.
    fn write_ns(&self, flow: &Flow, is_next: bool) -> u64 {
        self.costs.write_ns + self.file_ns(flow, is_next) + self.kilobytes_ns(flow, is_next)
    }

    /// What a file adds where it begins.
    fn file_ns(&self, flow: &Flow, is_next: bool) -> u64 {
        let (page, _) = self.to_write(flow, is_next);
        let begins = is_next || flow.conn.left == self.pages.length(page);
        if begins && self.pages.is_file(page) { self.costs.file_ns } else { 0 }
    }

    fn kilobytes_ns(&self, flow: &Flow, is_next: bool) -> u64 {
        let (_, bytes) = self.to_write(flow, is_next);
        self.costs.kilobyte_ns * u64::from(bytes.saturating_sub(1024)) / 1024
    }

    /// Which page is written next, and how many bytes of it.
    fn to_write(&self, flow: &Flow, is_next: bool) -> (u16, u32) {
        let conn = &flow.conn;
        let room = conn.room(self.profile);
        if !is_next {
            return (conn.page, conn.left.min(room));
        }
        let page = self.pages.asked(flow.first.wrapping_add(u32::from(conn.served)));
        (page, self.pages.length(page).min(room))
    }
}
