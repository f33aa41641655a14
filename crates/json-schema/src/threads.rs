//! Threads for long checks: few, so that the threads with other work keep the processors.

use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};
use tokio::sync::oneshot;

/// How many checks run at once. One that is in a match of a pattern does not end in time.
const MOST_THREADS: usize = 2;
/// How many checks against one schema wait for their turn.
const MOST_WAITING: usize = 32;
/// How many wait in all.
const MOST_WAITING_IN_ALL: usize = 128;
/// More than an allowance of a check has.
const STACK: usize = 4 << 20;

/// A check, and the address of what it checks against.
struct Work {
    of: usize,
    run: Box<dyn FnOnce() + Send>,
}

struct Threads {
    /// What is checked against now.
    running: Vec<usize>,
    waiting: VecDeque<Work>,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    running: Vec::new(),
    waiting: VecDeque::new(),
});

/// So many long checks wait already that no more are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many large values are being checked against schemas")]
pub struct Busy;

/// Does the work with `of`, a schema, on a thread for long checks, of which there are two. Checks against one schema do not hold up those against others: while
/// one against it runs, others go first.
///
/// # Errors
/// [`Busy`].
pub async fn off_thread<S: Send + Sync + 'static, T: Send + 'static>(
    of: &Arc<S>,
    work: impl FnOnce(&S) -> T + Send + 'static,
) -> Result<T, Busy> {
    let (sender, result) = oneshot::channel();
    let schema = Arc::clone(of);
    let run = Box::new(move || {
        // Nobody waits any more if sending fails.
        if !sender.is_closed() {
            let _ = sender.send(work(&schema));
        }
    });
    let of = Arc::as_ptr(of).addr();
    submit(Work { of, run })?;
    result.await.map_err(|_| Busy)
}

fn submit(work: Work) -> Result<(), Busy> {
    let mut threads = THREADS.lock();
    if threads.running.len() == MOST_THREADS {
        let of_same = threads.waiting.iter().filter(|waiting| waiting.of == work.of).count();
        if of_same == MOST_WAITING || threads.waiting.len() == MOST_WAITING_IN_ALL {
            return Err(Busy);
        }
        threads.waiting.push_back(work);
        return Ok(());
    }
    let of = work.of;
    let thread = thread::Builder::new().name("schema-check".to_owned()).stack_size(STACK);
    thread.spawn(move || run(work)).map_err(|_| Busy)?;
    threads.running.push(of);
    Ok(())
}

impl Threads {
    fn ended(&mut self, of: usize) {
        if let Some(at) = self.running.iter().position(|running| *running == of) {
            self.running.swap_remove(at);
        }
    }

    /// The first one against a schema that no other thread has, else the first one.
    fn take_next(&mut self) -> Option<Work> {
        let is_new = |work: &Work| !self.running.contains(&work.of);
        let at = self.waiting.iter().position(is_new).unwrap_or(0);
        self.waiting.remove(at)
    }
}

/// Does the work, and then what waits.
fn run(mut work: Work) {
    loop {
        let of = work.of;
        // After a panic, which was reported, the others have their turn. Its caller is told that it was not checked.
        let _ = catch_unwind(AssertUnwindSafe(work.run));
        let mut threads = THREADS.lock();
        // Under the lock that `submit` takes, or work could be left waiting.
        threads.ended(of);
        let Some(next) = threads.take_next() else { return };
        threads.running.push(next.of);
        work = next;
    }
}
