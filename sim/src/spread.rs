// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spreads jobs over threads, and brings their results back in the jobs' order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// As many threads as this process has processors.
#[must_use]
pub fn processors() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// What is heard of a job.
#[derive(Debug)]
pub(crate) enum News<P, R> {
    /// It begins.
    Begins(usize),
    /// One of them goes on.
    Goes(P),
    /// It is done. Results come in the order of their jobs.
    Done(usize, R),
}

/// Tells of a job that is under way.
pub(crate) struct Teller<'a, P, R> {
    news: &'a Sender<News<P, R>>,
}

impl<P, R> Teller<'_, P, R> {
    pub(crate) fn tell(&self, progress: P) {
        // Nobody listens any more when another job has failed.
        let _ = self.news.send(News::Goes(progress));
    }
}

/// Does so many jobs. `hear` is called in this thread; its error ends it all, as soon as the jobs
/// under way are done.
pub(crate) fn spread<P: Send, R: Send, E>(
    threads: NonZeroUsize,
    jobs: usize,
    work: impl Fn(usize, &Teller<'_, P, R>) -> R + Sync,
    mut hear: impl FnMut(News<P, R>) -> Result<(), E>,
) -> Result<(), E> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (tell, news) = channel();
    thread::scope(|scope| {
        for _ in 0..threads.get().min(jobs) {
            let tell = tell.clone();
            scope.spawn(|| {
                let tell = tell;
                while !is_over.load(Ordering::Relaxed) {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs || tell.send(News::Begins(job)).is_err() {
                        return;
                    }
                    let result = work(job, &Teller { news: &tell });
                    if tell.send(News::Done(job, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let mut waiting = BTreeMap::new();
        let mut due = 0;
        for heard in news {
            let heard = match heard {
                News::Done(job, result) => {
                    waiting.insert(job, result);
                    let mut done = Ok(());
                    while let (Ok(()), Some(result)) = (&done, waiting.remove(&due)) {
                        done = hear(News::Done(due, result));
                        due += 1;
                    }
                    done
                }
                other => hear(other),
            };
            if heard.is_err() {
                is_over.store(true, Ordering::Relaxed);
                return heard;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(threads: usize, jobs: usize) -> (Vec<usize>, usize, usize) {
        let (mut done, mut begun, mut told) = (Vec::new(), 0, 0);
        let threads = NonZeroUsize::new(threads).unwrap();
        let work = |job: usize, teller: &Teller<'_, (), usize>| {
            teller.tell(());
            job * job
        };
        let heard = spread(threads, jobs, work, |news| {
            match news {
                News::Begins(_) => begun += 1,
                News::Goes(()) => told += 1,
                News::Done(job, square) => {
                    assert_eq!(done.len(), job);
                    done.push(square);
                }
            }
            Ok::<(), ()>(())
        });
        assert_eq!(heard, Ok(()));
        (done, begun, told)
    }

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        let expected: Vec<usize> = (0..100).map(|job| job * job).collect();
        for threads in [1, 2, 7, 200] {
            assert_eq!(squares(threads, 100), (expected.clone(), 100, 100));
        }
        assert_eq!(squares(3, 0), (Vec::new(), 0, 0));
    }

    #[test]
    fn an_error_ends_it() {
        let work = |job: usize, _: &Teller<'_, (), usize>| job;
        let threads = NonZeroUsize::new(2).unwrap();
        let heard = spread(threads, 1000, work, |news| match news {
            News::Done(5, _) => Err("enough"),
            News::Done(job, _) if job > 5 => panic!("{job} was heard after the error"),
            _ => Ok(()),
        });
        assert_eq!(heard, Err("enough"));
    }
}
