// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A usual attempt takes no memory from the heap: a million of them start every few seconds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tidegate_client::{
    Attempt, Close, End, Flags, Options, Os, Out, Person, Requests, Segment, segment::Timestamps,
};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the promises that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; `pointer` came from `alloc`, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The end of what was sent last, and its clock.
#[derive(Default)]
struct Wire {
    end: u32,
    clock: u32,
}

impl Out for Wire {
    fn send(&mut self, segment: Segment<'_>) {
        self.end = segment.seq.wrapping_add(segment.sequence_length());
        self.clock = segment.options.timestamps.map_or(0, |clocks| clocks.value);
    }
}

fn serve(
    attempt: &mut Attempt,
    person: &Person,
    wire: &mut Wire,
    (flags, seq, payload): (Flags, u32, &[u8]),
) {
    let segment = Segment {
        flags: flags | Flags::ACK,
        seq,
        ack: wire.end,
        window: 5000,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: wire.clock }),
            time_wait: None,
        },
        payload,
    };
    attempt.receive(u64::from(seq) * 1_000_000, person, &segment, wire);
}

#[test]
fn an_attempt_with_one_request_allocates_nothing() {
    let person = Person {
        os: Os::linux(),
        mss: 1460,
        timeout_ns: 10_000_000_000,
        close: Close::Fin,
        time_wait: Default::default(),
        requests: Requests::get("10.0.0.1:80", ["/"]),
    };
    let reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut wire = Wire::default();
    let before = ALLOCATIONS.get();
    let mut attempt = Attempt::start(0, &person, 0, 1, &mut rng, &mut wire);
    serve(&mut attempt, &person, &mut wire, (Flags::SYN, 9, b""));
    serve(&mut attempt, &person, &mut wire, (Flags::PSH, 10, reply));
    serve(&mut attempt, &person, &mut wire, (Flags::FIN, 10 + reply.len() as u32, b""));
    let allocations = ALLOCATIONS.get() - before;
    assert_eq!((attempt.end(), attempt.is_finished()), (Some(End::Replied), true));
    assert_eq!(allocations, 0);
    // The counter counts.
    drop(Box::new(attempt));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
