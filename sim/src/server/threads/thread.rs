// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread of Knot's: where it stands, and whose connections it has.

use std::collections::VecDeque;

use tidegate_servers::{Queues, Strategy};

#[derive(Debug)]
pub(super) struct Thread {
    pub strategy: Strategy,
    pub stage: Stage,
    /// The queues as its accept phase found them.
    pub queues: Queues,
    /// Accepted in this phase, in which it found nobody more.
    pub accepted: u32,
    pub is_dry: bool,
    /// Of its connections: those that have their turn, those of which it does not know yet that they
    /// can, and those that it has not begun.
    pub told: VecDeque<u32>,
    pub news: VecDeque<u32>,
    pub later: VecDeque<u32>,
    /// Connections begun and not closed.
    pub holds: u32,
    /// The one that it has just worked on, of Capriccio's: it tries again before it sleeps.
    pub tries: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It wants to accept.
    Door,
    /// It waits until the one that accepts is done.
    AtDoor,
    /// Knot-A's acceptor waits for a thread to end.
    WaitsForPlace,
    Accept,
    /// It asks whether somebody is there.
    AsksListener,
    /// It sleeps until somebody is.
    Listens,
    /// Somebody is.
    Heard,
    Work,
    /// It asks which connections can go on.
    Asks,
    /// It sleeps until one can.
    Sleeps,
    /// One can.
    Woken,
    Ended,
}

impl Thread {
    pub(super) fn new(strategy: Strategy, stage: Stage) -> Self {
        Self {
            strategy,
            stage,
            queues: Queues::default(),
            accepted: 0,
            is_dry: false,
            told: VecDeque::new(),
            news: VecDeque::new(),
            later: VecDeque::new(),
            holds: 0,
            tries: None,
        }
    }

    /// Of a connection of its own, and of no other.
    pub(super) fn of_one(strategy: Strategy, place: u32) -> Self {
        let mut thread = Self::new(strategy, Stage::Work);
        thread.told.push_back(place);
        thread.holds = 1;
        thread
    }

    /// It goes on with those of which it did not know; says how many they are.
    pub(super) fn hears(&mut self) -> u64 {
        std::mem::swap(&mut self.told, &mut self.news);
        self.stage = Stage::Work;
        self.told.len() as u64
    }

    pub(super) fn is_free(&self) -> bool {
        self.holds == 0 && self.later.is_empty()
    }
}
