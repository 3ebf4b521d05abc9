// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection's turn: what is to be done on it, and what comes of that.

use tidegate_client::Close;

use super::{Order, Step};
use crate::flow::Flow;
use crate::machine::Program;
use crate::stack::{Host, State};
use crate::wire::{Wire, Work};

/// What a connection's turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A request is read; with `writes`, the reply is written at once.
    Read {
        writes: bool,
    },
    Write,
    /// CLIENT_CLOSE is read; where the client's end came with it, the connection is closed.
    ClientClose,
    Close,
    Nothing,
}

impl Host {
    pub(super) fn begin_turn(&mut self, flow: &mut Flow, place: u32, now_ns: u64, wire: &mut Wire) {
        // Also where a thread only tries: what comes meanwhile is not told of twice.
        flow.conn.is_ready = true;
        // Who has asked after all waits for us.
        flow.conn.is_overdue &= flow.conn.requests == 0;
        let conn = &flow.conn;
        let writes = self.app.program != Program::PapersUserver;
        let turn = if conn.was_reset || conn.is_overdue {
            Turn::Close
        } else if conn.replies {
            Turn::Write
        } else if conn.requests > 0 && conn.served >= flow.count {
            Turn::ClientClose
        } else if conn.requests > 0 {
            Turn::Read { writes }
        } else if conn.fin_seen {
            Turn::Close
        } else {
            Turn::Nothing
        };
        let took = if self.app.program == Program::Tux {
            self.tux_takes(flow, turn)
        } else {
            self.userver_takes(flow, turn)
        };
        self.begin(Step::Turn(place, turn), took, now_ns, wire);
    }

    pub(super) fn finish_turn(
        &mut self,
        flow: &mut Flow,
        place: u32,
        turn: Turn,
        now_ns: u64,
        wire: &mut Wire,
    ) {
        let mut work = Work::new(wire, &self.costs, place, now_ns);
        flow.conn.is_ready = false;
        match turn {
            // It was reset meanwhile: the call fails, and the next turn sees why.
            Turn::Read { .. } | Turn::Write | Turn::ClientClose if flow.conn.was_reset => {}
            Turn::Read { writes } => {
                self.begin_reply(flow);
                if writes {
                    self.write(flow, &mut work);
                }
            }
            Turn::Write => self.write(flow, &mut work),
            Turn::ClientClose => {
                flow.conn.requests -= 1;
                if flow.conn.fin_seen {
                    self.let_go(flow, &mut work);
                }
            }
            Turn::Close => self.let_go(flow, &mut work),
            Turn::Nothing => {}
        }
        if flow.conn.state == State::Accepted && !flow.conn.was_reset {
            self.bear_with(flow, place, now_ns, work.wire);
        }
        self.app.owes = work.took;
        self.tell(flow, place);
    }

    fn write(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        self.hand_over(flow, work);
        if flow.conn.replies {
            return;
        }
        self.app.statistics.replies += 1;
        if self.ending == Close::Server && flow.conn.served >= flow.count {
            self.let_go(flow, work);
        }
    }

    fn let_go(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        self.app.held -= 1;
        match &mut self.app.order {
            Order::Phases(phases) => phases.closed(),
            Order::Threads(threads) => threads.closed(flow.conn.thread),
        }
        self.app.statistics.dead_connections += u64::from(!flow.conn.was_answered());
        self.close(flow, work);
    }
}
