// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which measurement fixes which costs.

use tidegate_report::Point;

use crate::machine::Machine;

/// A number of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// Requests a second in a closed loop.
    Capacity,
    /// The share of its processor that the server uses, in per cent.
    Busy,
    /// The share of the application itself in that, in per cent.
    Application,
    /// The middle of response times, in ms.
    Response,
    /// Replies, in per cent of the capacity.
    Replies,
}

impl Number {
    /// Of a point, and of what its server can do.
    pub(super) fn of(self, point: &Point, capacity_per_s: f64) -> f64 {
        let part = |path: &str| point.measure(path).unwrap_or(f64::NAN);
        match self {
            Self::Capacity => capacity_per_s,
            Self::Busy => 100.0 * (1.0 - part("cpu.idle")),
            Self::Application => 100.0 * part("cpu_components.application"),
            Self::Response => part("response_ms.p50"),
            Self::Replies => 100.0 * point.replies_per_s / capacity_per_s,
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Capacity => "requests/s",
            Self::Replies => "% of the capacity",
            Self::Busy | Self::Application => "%",
            Self::Response => "ms",
        }
    }
}

/// One number, and the costs that it fixes.
#[derive(Debug)]
pub(super) struct Rule {
    pub costs: &'static str,
    pub by: &'static str,
    pub scenario: &'static str,
    pub curve: &'static str,
    pub number: Number,
    pub costs_of: fn(&mut Machine) -> Vec<&mut u64>,
}

/// All of them.
pub(super) const RULES: [Rule; 11] = [
    Rule {
        costs: "1 µs of a scenario's cost",
        by: "capacity with 100 µs a request",
        scenario: "flood",
        curve: "dropped by TCP",
        number: Number::Capacity,
        costs_of: |machine| vec![&mut machine.cost_us_ns],
    },
    Rule {
        costs: "a request on a standing connection: events, read, write, segments",
        by: "capacity with 50 requests a connection",
        scenario: "calm",
        curve: "many",
        number: Number::Capacity,
        costs_of: |machine| {
            let costs = &mut machine.costs;
            vec![
                &mut costs.segment_ns,
                &mut costs.make_ns,
                &mut costs.events_ns,
                &mut costs.event_ns,
                &mut costs.read_ns,
                &mut costs.write_ns,
                &mut costs.kilobyte_ns,
                &mut costs.file_ns,
            ]
        },
    },
    // How it divides into being let in and the rest is not measured: where many are let in to wait,
    // each takes memory that nobody had before, and costs half as much again as one that is served.
    Rule {
        costs: "a connection: SYN/ACK, handshake, accept, close",
        by: "capacity with one request a connection",
        scenario: "calm",
        curve: "bare",
        number: Number::Capacity,
        costs_of: |machine| {
            let costs = &mut machine.costs;
            vec![
                &mut costs.request_ns,
                &mut costs.request_again_ns,
                &mut costs.child_ns,
                &mut costs.overflow_ns,
                &mut costs.reset_ns,
                &mut costs.accept_ns,
                &mut costs.accept_none_ns,
                &mut costs.close_ns,
                &mut costs.tux_ns,
            ]
        },
    },
    Rule {
        costs: "the application's own work for a request",
        by: "its share of the busy processor",
        scenario: "calm",
        curve: "bare",
        number: Number::Application,
        costs_of: |machine| vec![&mut machine.costs.serve_ns],
    },
    Rule {
        costs: "waking the application",
        by: "the busy share of the processor at 0.4 of the capacity",
        scenario: "calm",
        curve: "bare",
        number: Number::Busy,
        costs_of: |machine| vec![&mut machine.costs.wake_ns],
    },
    Rule {
        costs: "the cable",
        by: "the median response at 0.4 of the capacity",
        scenario: "calm",
        curve: "bare",
        number: Number::Response,
        costs_of: |machine| vec![&mut machine.wire_ns],
    },
    Rule {
        costs: "a frame up to TCP, and a SYN that TCP drops",
        by: "replies at six times the capacity, SYNs dropped by TCP in batches",
        scenario: "batches",
        curve: "dropped in batches",
        number: Number::Replies,
        costs_of: |machine| {
            let costs = &mut machine.costs;
            vec![
                &mut costs.frame_ns,
                &mut costs.buffer_ns,
                &mut costs.ip_ns,
                &mut costs.look_up_ns,
                &mut costs.refuse_ns,
            ]
        },
    },
    Rule {
        costs: "an interrupt",
        by: "replies at fifteen times the capacity, SYNs dropped by TCP",
        scenario: "flood",
        curve: "dropped by TCP",
        number: Number::Replies,
        costs_of: |machine| vec![&mut machine.costs.interrupt_ns],
    },
    Rule {
        costs: "a decision on a SYN",
        by: "replies at fifteen times the capacity, SYNs dropped at the IP entry",
        scenario: "flood",
        curve: "dropped at the IP entry",
        number: Number::Replies,
        costs_of: |machine| vec![&mut machine.costs.hook_ns],
    },
    Rule {
        costs: "a frame sent",
        by: "replies at fifteen times the capacity, SYNs refused at the IP entry",
        scenario: "flood",
        curve: "refused at the IP entry",
        number: Number::Replies,
        costs_of: |machine| vec![&mut machine.costs.transmit_ns],
    },
    Rule {
        costs: "a SYN refused at the driver",
        by: "replies at fifteen times the capacity, SYNs refused at the driver",
        scenario: "flood",
        curve: "refused at the driver",
        number: Number::Replies,
        costs_of: |machine| vec![&mut machine.costs.early_ns],
    },
];
