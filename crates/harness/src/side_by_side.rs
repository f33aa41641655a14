//! Does several pieces of work concurrently.

use std::sync::Mutex;

/// Calls `work` with each item, on `at_a_time` threads. The results have the order of the items.
pub fn map<T: Send, R: Send>(items: Vec<T>, at_a_time: usize, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().ok()?.next();
    let worker = || {
        let done = std::iter::from_fn(next).map(|(nth, item)| (nth, work(item)));
        done.collect::<Vec<_>>()
    };
    let mut done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(worker)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.flatten().collect::<Vec<_>>()
    });
    done.sort_unstable_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, result)| result).collect()
}
