// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What everything costs the server's processor, in ns.
//!
//! # The papers' Xeon, 2.4 GHz, Linux 2.4.22
//! One set for all figures. Each number comes from one or more of these:
//!
//! - **A**: Shukla, table 4.4: TUX just below its peak spends 27 % in the driver, 3.5 % in IP, 3.8 %
//!   in other protocol-independent code, 17 % in TCP, 8 % in sockets, 7 % in memory management, 19 %
//!   elsewhere in the kernel, 13 % in itself. Without the profiler its peak is 22,000 requests a
//!   second (section 4.1.4): 45 µs each. A connection is six segments in (table 4.5) and four out:
//!   driver 12 µs, IP 1.6 µs, other and memory 4.8 µs, TCP 7.5 µs, and 20 µs that are TUX's, the
//!   sockets' and the rest of the kernel's.
//! - **B**: what a dropped SYN takes, from Shukla, table 4.2: at 26,000 requests a second TUX with
//!   default drops 26,828 SYNs and 5,135 ACKs a second, at 34,000 it is 53,216 and 4,283; what the
//!   served leave of the processor is about 3.5 µs a SYN. Most of that is below TCP: a drop at TCP's
//!   entry gains less than 5 % of throughput (section 5.4) where 41,500 SYNs a second are dropped.
//! - **C**: a connection reset at the ACK stage takes 12 to 14 µs (Shukla, table 4.5: 7,931 a second
//!   of them at 28,000 requests a second, 13,259 at 34,000). That is three segments in and three out
//!   at A's prices; nothing is left to choose.
//! - **D**: e1000 of that time interrupts 8,000 times a second (Intel's default
//!   `InterruptThrottleRate`), and the server has two. The driver's share falls under overload, when
//!   polling replaces interrupts (Shukla, section 4.1.4), by less than 5 %: an interrupt is 1 to 2 µs.
//! - **E**: Pariag, table 4.9, with tables 4.7 and 5.1: the userver's calls by their share of a
//!   second, at 27,000 requests a second and Accept-Inf: select() 15.84 % for 262 calls with 191.5
//!   descriptors, accept() and setsockopt() 12.8 % for 18,462, read() 19.34 % for two a reply, close()
//!   16.14 %. With Accept-1, select() takes 32.43 % for 11,372 calls with 3.6 descriptors. A profiler of
//!   the process counts packets that interrupt its calls as theirs: by A's and B's prices and the
//!   tables' rates these take half of the processor with Accept-Inf, and 36 % with Accept-1. What is
//!   written here is without them.
//! - **F**: what is left of a request at the userver's peak of 19,000 to 20,000 a second (Shukla,
//!   section 4.1.3) goes to writev() and to the userver itself.
//! - **G**: Pariag, table 4.3: of 12,249 SPECweb99-like replies a second sendfile() takes 43.88 %,
//!   write() with two setsockopt() 17.4 %; three quarters of that are the calls' own. Of sendfile()'s
//!   27 µs a reply, 10 are its ten segments at A's prices and 3.6 a write()'s (F); the rest is 14 KB's.
//! - **H**: von Behren et al., *Capriccio: Scalable Threads for Internet Services* (SOSP 2003), table 1,
//!   on two Xeons of 2.4 GHz: a thread begun 21.5 µs, a context switch 0.24 µs. What is left of a
//!   request at the peak of Knot with Accept-1, 12,000 a second (Pariag, section 4.2.3), goes to Knot and
//!   to Capriccio's calls.
//! - **I**: where two sources say two things, what comes nearest to all the peaks. Table 4.9 makes a
//!   select() with 3.6 descriptors 18 µs, but then the userver would not serve 19,500 requests a second
//!   with Accept-1, which calls it for each, nor 22,000 with Accept-10 (Pariag, section 4.2.1): 51 and 45
//!   µs a request, so that a select() with the few descriptors that it is told of then is 6. TUX' 45 µs
//!   (A) are 40 with Accept-1 (25,001 a second, section 4.2.2) and 49 with Accept-Inf. G's 950 ns a
//!   kilobyte are from a profile that shares its interrupts out; 1150 are nearer to the five throughputs
//!   of tables 4.1 and 4.4.

use serde::{Deserialize, Serialize};

/// What everything costs, in ns of the processor; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// An interrupt.
    pub interrupt_ns: u64,
    /// A frame taken in, as far as the driver.
    pub frame_ns: u64,
    /// Its buffer, up to the entry of IP.
    pub buffer_ns: u64,
    /// IP, either way.
    pub ip_ns: u64,
    /// A frame sent, from below IP to the completed transmission.
    pub transmit_ns: u64,
    /// TCP's look-ups for a segment that belongs to no connection yet.
    pub look_up_ns: u64,
    /// A SYN that is dropped or answered at the driver, with its frame, the decision and the answer.
    /// Where all of that is another processor's, what it slows this one down by.
    pub early_ns: u64,
    /// A mechanism's decision on a SYN, anywhere else, or where the driver passes it on.
    pub hook_ns: u64,
    /// A mechanism's look at any other segment.
    pub hook_other_ns: u64,
    /// TCP's checks for a SYN that it drops.
    pub refuse_ns: u64,
    /// A half-open request made, with its SYN/ACK.
    pub request_ns: u64,
    /// A SYN/ACK repeated.
    pub request_again_ns: u64,
    /// A SYN/ACK whose number is a cookie, or a cookie checked.
    pub cookie_ns: u64,
    /// A connection made of a request.
    pub child_ns: u64,
    /// A segment of a half-open request that the full listen queue has no place for.
    pub overflow_ns: u64,
    /// A RST made.
    pub reset_ns: u64,
    /// A segment of an established connection.
    pub segment_ns: u64,
    /// A segment made, of data or an acknowledgement.
    pub make_ns: u64,
    /// The application woken.
    pub wake_ns: u64,
    /// Asking for events.
    pub events_ns: u64,
    /// Each event told.
    pub event_ns: u64,
    /// Each connection asked about (select() looks at every one).
    pub watched_ns: u64,
    /// A connection accepted, and its options set.
    pub accept_ns: u64,
    /// An accept() that found none.
    pub accept_none_ns: u64,
    /// A read().
    pub read_ns: u64,
    /// A write(), without its transmission.
    pub write_ns: u64,
    /// Each 1024 bytes of a reply beyond the first.
    pub kilobyte_ns: u64,
    /// What a file takes beside a page from memory: its head written apart, corking.
    pub file_ns: u64,
    /// A close(), without its transmission.
    pub close_ns: u64,
    /// The application's own work for a request: parsing it, finding its reply.
    pub serve_ns: u64,
    /// All of a request in TUX, without accepting and transmissions.
    pub tux_ns: u64,
    /// What a request takes of Knot's application more than of the userver's.
    pub knot_ns: u64,
    /// What a request takes of nginx more than of the userver; where nobody has measured it curves of
    /// nginx's are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nginx_ns: Option<u64>,
    /// One thread going on instead of another: the one put to sleep, the other woken.
    pub switch_ns: u64,
    /// A thread begun, and its end.
    pub thread_ns: u64,
}

impl Costs {
    /// The papers' machine: see the source's head for where each number comes from.
    pub const XEON_2_4_GHZ: Self = Self {
        // D.
        interrupt_ns: 1500,
        // A: 12 µs of the driver are six in, four out and an interrupt; other and memory go to
        // the buffers of what comes in.
        frame_ns: 1500,
        buffer_ns: 800,
        ip_ns: 200,
        transmit_ns: 500,
        // B: with the 2.5 µs before, 3.3 µs a dropped SYN.
        look_up_ns: 300,
        refuse_ns: 500,
        // A frame in and a frame out.
        early_ns: 2000,
        // Shukla's mechanisms are a test in TCP.
        hook_ns: 0,
        hook_other_ns: 0,
        // A: TCP's 7.5 µs a connection.
        request_ns: 1300,
        request_again_ns: 1000,
        cookie_ns: 1500,
        child_ns: 2000,
        overflow_ns: 700,
        reset_ns: 400,
        segment_ns: 650,
        make_ns: 300,
        wake_ns: 2500,
        // E and I.
        events_ns: 4500,
        event_ns: 1000,
        watched_ns: 300,
        accept_ns: 3450,
        accept_none_ns: 800,
        read_ns: 2800,
        close_ns: 3000,
        // F and I.
        write_ns: 3600,
        serve_ns: 4500,
        // G and I.
        kilobyte_ns: 1150,
        file_ns: 10_000,
        // A and I: TUX, sockets and the rest of the kernel, without accept().
        tux_ns: 15_000,
        // H.
        knot_ns: 30_000,
        nginx_ns: None,
        switch_ns: 240,
        thread_ns: 21_500,
    };

    /// A virtual processor of today, a Xeon of 2.1 GHz. The network's part agrees with packet rates
    /// measured over veth on one core: a SYN dropped at a full listen queue 0.88 to 1.23 M a second,
    /// refused in tc 0.80 to 1.17 M, answered with a kernel's cookie 0.27 to 0.30 M, RST of a closed
    /// port 0.40 to 0.45 M; a virtual machine pays more for an interrupt than for either. The rest
    /// agrees with live runs of `shukla-4.7` and `today-overload` as a whole: their capacities of
    /// 20,100 to 21,600 and 6,750 requests a second, what they leave idle below it, and what refused
    /// SYNs take above it. nginx serves 0.68 of the userver's one-packet requests (an EPYC, 2026-11-25).
    /// `tidelab calibrate` makes a machine of its own for a host.
    pub const TODAY: Self = Self {
        interrupt_ns: 2500,
        frame_ns: 120,
        buffer_ns: 130,
        ip_ns: 300,
        transmit_ns: 300,
        look_up_ns: 150,
        early_ns: 300,
        hook_ns: 200,
        hook_other_ns: 60,
        refuse_ns: 250,
        request_ns: 600,
        request_again_ns: 280,
        cookie_ns: 2300,
        child_ns: 800,
        overflow_ns: 120,
        reset_ns: 1000,
        segment_ns: 500,
        make_ns: 200,
        wake_ns: 6000,
        events_ns: 500,
        event_ns: 100,
        watched_ns: 0,
        accept_ns: 1000,
        accept_none_ns: 120,
        read_ns: 700,
        write_ns: 2000,
        kilobyte_ns: 100,
        file_ns: 1500,
        close_ns: 2500,
        serve_ns: 3000,
        tux_ns: 5000,
        knot_ns: 0,
        nginx_ns: Some(22_000),
        switch_ns: 1500,
        thread_ns: 25_000,
    };

    pub(crate) fn frames(&self) -> Frames {
        let Self { frame_ns, buffer_ns, ip_ns, transmit_ns, .. } = *self;
        Frames { frame_ns, buffer_ns, ip_ns, transmit_ns }
    }
}

/// What every frame costs, whatever is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    pub frame_ns: u64,
    pub buffer_ns: u64,
    pub ip_ns: u64,
    pub transmit_ns: u64,
}
