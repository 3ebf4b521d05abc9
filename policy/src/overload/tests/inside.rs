// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who waits inside the application: servers that accept whoever is there.

use std::collections::VecDeque;

use super::*;

/// An application with no queue but its own.
struct Application {
    story: Story,
    counting: Counting,
    /// Whether a daemon counts who waits.
    is_counted: bool,
    /// It accepts whoever waits, so often; 0: whoever comes, at once.
    accepts_every_ms: u64,
    /// When they came, of those who have not been accepted, and who have not been answered.
    queue: VecDeque<u64>,
    inside: VecDeque<u64>,
    per_s: u64,
    /// It reads a request when it begins with it, and not as soon as it has accepted.
    reads_late: bool,
    /// So long a request takes besides, of which it does any number at once.
    takes_ns: u64,
    /// So many wait for something else to happen, and are never answered.
    parked: u32,
    /// So long clients wait.
    patience_ns: u64,
    done: u64,
    coming: u64,
    came: Came,
}

/// What became of new clients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Came {
    kept_out: u64,
    /// While they were there.
    answered: u64,
    /// For those who had gone.
    wasted: u64,
    longest_ns: u64,
}

impl Application {
    fn new(per_s: u64) -> Self {
        Self {
            story: Story::new(),
            counting: Counting::default(),
            is_counted: true,
            accepts_every_ms: 0,
            queue: VecDeque::new(),
            inside: VecDeque::new(),
            per_s,
            reads_late: false,
            takes_ns: 0,
            parked: 0,
            patience_ns: 10 * S,
            done: 0,
            coming: 0,
            came: Came::default(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.story.now_ns
    }

    fn waited_ns(&self, since_ns: u64) -> u64 {
        self.now_ns() - since_ns
    }

    /// New clients for some time, at this rate.
    fn runs(&mut self, for_s: u64, per_s: u64) -> Came {
        self.came = Came::default();
        for ms in 0..for_s * 1000 {
            self.story.now_ns += MS;
            self.answer();
            self.coming += per_s;
            while self.coming >= 1000 {
                self.coming -= 1000;
                let queues = queues(self.queue.len() as u32, 0);
                match self.story.meets(&queues).0 {
                    TG_PASS => self.queue.push_back(self.now_ns()),
                    _ => self.came.kept_out += 1,
                }
                if self.accepts_every_ms == 0 {
                    self.inside.append(&mut self.queue);
                }
            }
            if self.accepts_every_ms > 0 && ms % self.accepts_every_ms == 0 {
                self.inside.append(&mut self.queue);
            }
            if ms % 250 == 0 && self.is_counted && self.counting.is_due() {
                self.count();
            }
        }
        self.came
    }

    fn answer(&mut self) {
        self.done += self.per_s;
        while self.done >= 1000 {
            self.done -= 1000;
            let first = self.inside.front().filter(|came| self.waited_ns(**came) >= self.takes_ns);
            let Some(waited_ns) = first.map(|came| self.waited_ns(*came)) else { continue };
            self.inside.pop_front();
            if waited_ns < self.patience_ns {
                self.came.answered += 1;
                self.came.longest_ns = self.came.longest_ns.max(waited_ns);
            } else {
                self.came.wasted += 1;
            }
        }
    }

    fn count(&mut self) {
        let have_waited = |since_ns: u64| {
            let long_ns = since_ns + u64::from(TG_INSIDE_UNHEEDED_NS);
            self.inside.iter().filter(|came| self.waited_ns(**came) >= long_ns).count() as u32
        };
        let gone = have_waited(self.patience_ns);
        let inside = tg_inside {
            at_ns: self.now_ns(),
            unanswered: self.inside.len() as u32 + self.parked,
            unread: if self.reads_late { have_waited(0) - gone } else { 0 },
            gone,
            queued: self.queue.len() as u32,
            let_in: self.story.watch.overload().let_in,
            ..Default::default()
        };
        self.story.watch.count_inside(inside);
        self.counting.counted([(inside, self.story.watch.overload())]);
    }
}

/// It would else work for those who have gone, and answer nobody.
#[test]
fn who_waits_inside_is_answered_while_it_is_there() {
    for percent in [130, 150, 200, 300] {
        let answered = |is_counted: bool| {
            let mut application = Application { is_counted, ..Application::new(200) };
            application.runs(90, 2 * percent);
            application.runs(30, 2 * percent)
        };
        assert_eq!(answered(false).answered, 0, "at {percent} %");
        let came = answered(true);
        assert!(came.answered >= 30 * 190, "at {percent} %: {came:?}");
        assert!(came.longest_ns <= 3 * S, "at {percent} %: {came:?}");
        assert_eq!(came.wasted, 0, "at {percent} %");
    }
}

/// At one and a half times what it answers the first wait for a third of the time that has passed: they leave from 30 s
/// on, and after 38 s an eighth of those who wait have been gone for a second. What it has accepted when that has been so
/// for three, 41 s of a hundred more a second, takes it 21 s.
#[test]
fn it_is_known_when_many_have_gone_and_mended_when_they_are_done_with() {
    let mut application = Application::new(200);
    application.runs(37, 300);
    assert!(!application.story.watch.overload().is_behind());
    application.runs(5, 300);
    assert!(application.story.watch.overload().is_behind());
    application.runs(23, 300);
    let came = application.runs(20, 300);
    assert!(came.answered >= 20 * 190 && came.wasted == 0, "{came:?}");
}

/// Who does not read what was said a second ago is known to be behind before anyone has gone, and nobody need go.
#[test]
fn requests_that_are_not_read_show_it_before_anyone_has_gone() {
    for percent in [130, 200, 300] {
        let mut application = Application { reads_late: true, ..Application::new(200) };
        let came = application.runs(60, 2 * percent);
        assert!(came.answered >= 60 * 195 && came.wasted == 0, "at {percent} %: {came:?}");
    }
}

/// While clients are dropped, too: of one that accepts whoever waits four times a second, for more than wait at a time
/// there is no room.
#[test]
fn requests_that_are_not_read_show_it_while_clients_are_dropped() {
    let mut application =
        Application { reads_late: true, accepts_every_ms: 250, ..Application::new(200) };
    let came = application.runs(6, 1500);
    assert_eq!(application.story.phase(), "burst");
    assert!(application.story.watch.overload().is_behind(), "{came:?}");
    let came = application.runs(54, 1500);
    assert!(came.answered >= 54 * 190 && came.wasted == 0, "{came:?}");
}

/// A short overload is no sign; nor does it tell against what was seen before it.
#[test]
fn a_short_overload_does_not_hide_who_is_not_read() {
    let mut application =
        Application { reads_late: true, accepts_every_ms: 250, ..Application::new(200) };
    application.runs(3, 400);
    application.runs(1, 600);
    assert_eq!(application.story.phase(), "burst");
    assert!(!application.story.watch.overload().is_behind());
    application.runs(3, 400);
    assert_eq!(application.story.phase(), "calm");
    assert!(application.story.watch.overload().is_behind());
}

/// As while memory is collected, or its host moved.
#[test]
fn a_server_that_stops_for_two_seconds_is_not_behind() {
    let mut application = Application { reads_late: true, ..Application::new(200) };
    application.runs(10, 150);
    application.per_s = 0;
    application.runs(2, 150);
    application.per_s = 200;
    application.runs(30, 150);
    assert_eq!(application.story.watch.overload().behind, 0);
}

/// Long polls wait by design.
#[test]
fn many_who_wait_are_no_sign_by_themselves() {
    let mut application =
        Application { takes_ns: 25 * S, patience_ns: 30 * S, ..Application::new(10_000) };
    let came = application.runs(120, 400);
    assert_eq!((came.kept_out, came.wasted), (0, 0));
    assert!(!application.story.watch.overload().is_behind());
}

/// What count after count shows, each time of more who wait.
#[test]
fn many_who_are_not_heeded_are_a_sign_and_many_in_the_queue_beside_those_inside() {
    let are_behind = |grow: u32, unanswered, unheeded: u32, queued| {
        let mut application = Application::new(200);
        for number in 0..TG_INSIDE_COUNTS {
            application.story.now_ns += 300 * MS;
            let at_ns = application.now_ns();
            let unanswered = unanswered + number * grow;
            let let_in = application.story.watch.overload().let_in;
            let (unread, gone) = (unheeded / 2, unheeded.div_ceil(2));
            let count =
                tg_inside { at_ns, unanswered, unread, gone, queued, let_in, ..Default::default() };
            application.story.watch.count_inside(count);
            application.story.meets(&queues(0, 0));
        }
        application.story.watch.overload().is_behind()
    };
    let is_behind = |unanswered, unheeded, queued| are_behind(1, unanswered, unheeded, queued);
    let (least, grown) = (TG_INSIDE_LEAST, TG_INSIDE_COUNTS - 1);
    assert!(is_behind(least * TG_INSIDE_SHARE - grown, least, 0));
    assert!(!is_behind(least * TG_INSIDE_SHARE + 1, least, 0), "hardly an eighth");
    assert!(!is_behind(least - 1, least - 1, 0), "few are chance");
    assert!(!are_behind(0, least, least, 0), "what a crowd has left");
    let long = TG_OVERLOAD_BOUND_LEAST;
    assert!(is_behind(long.div_ceil(TG_INSIDE_SHARE), 0, long));
    assert!(!is_behind(long.div_ceil(TG_INSIDE_SHARE), 0, long - 1), "a queue that is no long one");
    assert!(
        !is_behind(long / TG_INSIDE_SHARE - 1 - grown, 0, long),
        "it has them wait in the queue"
    );
    assert!(!is_behind(1000, 0, 0), "long polls");
}

/// A crowd that fills the listen queue at once has clients dropped before anyone has left, and from then on there seems
/// to be the usual overload. (One who accepts whoever waits four times a second seems to take whatever it is let have.)
#[test]
fn a_crowd_that_fills_the_queue_first_does_not_hide_who_has_gone() {
    let mut application = Application { accepts_every_ms: 250, ..Application::new(20) };
    // What it has accepted meanwhile takes it longest.
    application.runs(300, 900);
    let came = application.runs(60, 900);
    assert!(came.answered >= 60 * 19 && came.wasted == 0, "{came:?}");
}

/// Nor, of a server that was behind, many of whom none is answered, while it answers all who come besides.
#[test]
fn long_polls_keep_nobody_out_who_is_answered() {
    let mut application = Application::new(200);
    application.runs(60, 300);
    application.runs(30, 100);
    application.parked = 1000;
    assert_eq!(application.runs(60, 100).kept_out, 0);
}

/// What it answered when it was quicker is forgotten.
#[test]
fn a_server_that_becomes_slower_is_let_have_fewer() {
    for crowd in [500, 1500] {
        let mut application = Application::new(1000);
        application.runs(60, crowd);
        application.per_s = 200;
        application.runs(60, crowd);
        let came = application.runs(30, crowd);
        assert!(came.answered >= 30 * 190, "{came:?}");
        assert!(came.longest_ns <= 3 * S, "{crowd}: {came:?}");
    }
}

/// Nor is it counted against a server that was behind that many wait, where no more come than it answers.
#[test]
fn a_server_that_was_behind_lets_everyone_in_when_the_crowd_has_gone() {
    let mut application = Application::new(200);
    application.runs(60, 400);
    application.runs(10, 100);
    let came = application.runs(30, 150);
    assert_eq!(came.kept_out, 0);
    assert_eq!(application.story.phase(), "calm");
    // The next crowd is known as soon as a quarter of their patience is full.
    application.runs(10, 400);
    let came = application.runs(20, 400);
    assert!(came.answered >= 20 * 190 && came.wasted == 0, "{came:?}");
}

/// Fail open: where no daemon counts nobody is kept out for what was counted once.
#[test]
fn a_count_that_is_old_keeps_nobody_out() {
    let mut application = Application::new(200);
    application.runs(60, 400);
    assert!(application.runs(10, 400).kept_out > 0);
    application.is_counted = false;
    application.runs(5, 400);
    assert_eq!(application.runs(10, 400).kept_out, 0);
}

/// Of a server that only computes those whom it answers between two counts, and twice as many now and then; where
/// requests wait for something else besides, twice as many as wait for that at most, or half of their patience.
#[test]
fn how_many_are_enough_is_found_by_trial() {
    for (takes_ms, longest_ms) in [(0, 600), (100, 600), (500, 1000), (1000, 2000), (2000, 5000)] {
        for percent in [120, 150, 300] {
            let mut application = Application { takes_ns: takes_ms * MS, ..Application::new(200) };
            application.runs(120, 2 * percent);
            let came = application.runs(120, 2 * percent);
            let of = format!("{takes_ms} ms, at {percent} %: {came:?}");
            assert!(came.answered >= 120 * 195, "{of}");
            assert!(came.longest_ns <= longest_ms * MS, "{of}");
        }
    }
}

/// It is found while what was accepted before is worked off: how many it answers a second is known at once, for there are
/// more than enough, and of 512 well enough.
#[test]
fn how_many_are_enough_is_found_soon() {
    let mut application = Application::new(200);
    application.runs(58, 400);
    let came = application.runs(5, 400);
    assert!(came.answered >= 5 * 190 && came.longest_ns <= 400 * MS, "{came:?}");
}

/// Nor does it take long where few are answered.
#[test]
fn how_many_are_enough_is_found_for_a_server_of_few_requests_too() {
    let mut application = Application::new(20);
    application.runs(90, 40);
    let came = application.runs(60, 40);
    assert!(came.answered >= 60 * 19 && came.longest_ns <= 1200 * MS, "{came:?}");
}

/// What was enough while it did less is too little afterwards, and nothing would show that but more.
#[test]
fn more_are_tried_now_and_then() {
    let mut application = Application { takes_ns: 500 * MS, ..Application::new(200) };
    application.runs(60, 400);
    application.per_s = 100;
    application.runs(300, 400);
    application.per_s = 200;
    application.runs(90, 400);
    let came = application.runs(60, 400);
    assert!(came.answered >= 60 * 190, "{came:?}");
}

/// With a limit that goes by what it answers it would be let have half of what it needs, and in turn half of that, and
/// so on. It is let have more than at first.
#[test]
fn requests_that_take_half_of_the_patience_are_answered() {
    let mut application = Application { takes_ns: 5 * S, ..Application::new(200) };
    application.runs(240, 400);
    let came = application.runs(60, 400);
    assert!(came.answered >= 60 * 180, "{came:?}");
}

/// Counts go by sockets' wishes: all connections of the host are walked.
#[test]
fn they_are_counted_at_each_fourth_look_where_no_server_is_behind() {
    let calm = tg_overload::default();
    let behind = tg_overload { behind: TG_INSIDE_COUNTS, ..calm };
    let of =
        |unanswered, unread, gone| tg_inside { unanswered, unread, gone, ..Default::default() };
    for (inside, overload, every) in [
        (of(9, 0, 0), &calm, 4),
        (of(9, 1, 0), &calm, 1),
        (of(9, 0, 1), &calm, 1),
        (of(9, 0, 0), &behind, 1),
        (of(0, 0, 0), &behind, 4),
    ] {
        let mut counting = Counting::default();
        assert!(counting.is_due());
        counting.counted([(inside, overload)]);
        let next = (1..).find(|_| counting.is_due());
        assert_eq!(next, Some(every), "{inside:?}");
    }
}
