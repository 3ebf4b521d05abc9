// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who closes a window, where several processors find it over.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use super::*;

/// By the clock of claims.
fn tick_of(now_ns: u64) -> u32 {
    (now_ns >> TG_OVERLOAD_CLOSING_SHIFT) as u32 | 1
}

/// Before and after a SYN that finds the window over, which another processor began to close at that tick;
/// 0: none did. The queue is too long, and the server has taken 268 from it.
fn met(closing_tick: u32) -> (tg_overload, tg_overload) {
    let mut story = Story::new();
    (story.backlog, story.queue) = (4096, 3000);
    let before = tg_overload {
        window_ns: story.now_ns - u64::from(TG_OVERLOAD_WINDOW_NS),
        drain_x256: CAPACITY << 8,
        taken_x256: CAPACITY << 8,
        listened: 2700,
        queued: 2700,
        entered: 500,
        exempted: 68,
        kept_out: 100,
        closing_tick,
        ..Default::default()
    };
    story.watch.overload = before;
    story.comes();
    (before, story.watch.overload)
}

/// What is seen at a window's end, and kept for the next one's.
fn seen(overload: &tg_overload) -> [u64; 9] {
    let tg_overload { window_ns, bound, taken_x256, kept_out_x256, kept_out, .. } = *overload;
    let tg_overload { syn_ns, worth, listened, exempted, .. } = *overload;
    let (listened, exempted) = (listened.into(), exempted.into());
    [window_ns, bound, taken_x256, kept_out_x256, kept_out, syn_ns, worth, listened, exempted]
}

/// Else its end would be taken for its beginning, too, and those kept out count twice.
#[test]
fn of_several_processors_that_find_a_window_over_one_sees_it_and_closes_it() {
    let now_ns = Story::new().now_ns;
    for closing_tick in [now_ns, now_ns - 100 * MS, now_ns + 4 * MS].map(tick_of) {
        let (before, after) = met(closing_tick);
        assert_eq!(seen(&after), seen(&before));
        assert_eq!((after.closing_tick, after.seen), (closing_tick, 1), "the SYN is counted");
    }
    let (before, after) = met(0);
    assert_eq!((after.bound, after.listened, after.exempted), (1073, 3000, 0));
    assert!(after.kept_out_x256 > before.kept_out_x256 && after.kept_out == 0);
    assert_eq!((after.window_ns, after.closing_tick), (now_ns, 0));
}

/// Who copies a socket's memory may meet it in the midst of that.
#[test]
fn who_began_to_close_a_window_long_ago_keeps_nobody_from_it() {
    let now_ns = Story::new().now_ns;
    for ago_ms in [300, 3_000, 900_000] {
        let (_, after) = met(tick_of(now_ns - ago_ms * MS));
        assert_eq!(seen(&after), seen(&met(0).1), "{ago_ms} ms ago");
        assert_eq!(after.closing_tick, 0);
    }
}

/// Else many would seem to have found silence in a window that has only begun, and the others be told.
#[test]
fn who_finds_room_leaves_it_alone_how_many_found_silence() {
    let (rules, now_ns) = (mechanism::parse("auto").unwrap(), Story::new().now_ns);
    // As a map has it: it is nobody's own.
    let overload = Box::into_raw(Box::new(tg_overload { window_ns: now_ns, ..Default::default() }));
    // SAFETY: it stands until the end of the test, and words are written and read as a whole.
    let (silent, seen) = unsafe {
        (
            AtomicU64::from_ptr(&raw mut (*overload).silent),
            AtomicU64::from_ptr(&raw mut (*overload).seen),
        )
    };
    let (shared, is_over) = (overload.expose_provenance(), AtomicBool::new(false));
    let came_back = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let overload = std::ptr::with_exposed_provenance_mut(shared);
                finds_room(overload, &rules, now_ns);
            }
        });
        let windows = (0..2_000).filter(|_| {
            silent.store(1000, SeqCst);
            let before = seen.load(SeqCst);
            // Until the other has been there, as it may be in the midst of a SYN.
            while seen.load(SeqCst) == before {
                thread::yield_now();
            }
            silent.store(0, SeqCst);
            let before = seen.load(SeqCst);
            while seen.load(SeqCst) == before {
                thread::yield_now();
            }
            silent.load(SeqCst) != 0
        });
        let came_back = windows.count();
        is_over.store(true, SeqCst);
        came_back
    });
    // SAFETY: it came from a box, and nobody reads it any more.
    drop(unsafe { Box::from_raw(overload) });
    assert_eq!(came_back, 0);
}

/// One that read the count before the window was closed would else store it back, and the server seem to take as many
/// more.
#[test]
fn those_exempt_who_find_room_at_two_processors_at_once_are_all_counted() {
    const EACH: u32 = 50_000;
    let (rules, now_ns) = (mechanism::parse("auto").unwrap(), Story::new().now_ns);
    let overload = Box::into_raw(Box::new(tg_overload { window_ns: now_ns, ..Default::default() }));
    let shared = overload.expose_provenance();
    // On a busy host they would else seldom meet.
    let both = Barrier::new(2);
    let processor = || {
        let overload = std::ptr::with_exposed_provenance_mut(shared);
        for _ in 0..20 {
            both.wait();
            (0..EACH).for_each(|_| finds_room_from(TG_SOURCE_EXEMPT, overload, &rules, now_ns));
        }
    };
    thread::scope(|scope| {
        scope.spawn(processor);
        scope.spawn(processor);
    });
    // SAFETY: it came from a box, and nobody reads it any more.
    assert_eq!(unsafe { Box::from_raw(overload) }.exempted, 2 * 20 * EACH);
}
