//! Threads for long checks: few, so that the threads with other work keep the processors.

use parking_lot::Mutex;
use std::{collections::VecDeque, thread};
use tokio::sync::oneshot;

/// How many checks run at once. One that is in a match of a pattern does not end in time.
const MOST_THREADS: usize = 2;
/// How many wait for their turn.
const MOST_WAITING: usize = 64;
/// More than an allowance of a check has.
const STACK: usize = 4 << 20;

type Work = Box<dyn FnOnce() + Send>;

struct Threads {
    running: usize,
    waiting: VecDeque<Work>,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    running: 0,
    waiting: VecDeque::new(),
});

/// So many long checks wait already that no more are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many large values are being checked against schemas")]
pub struct Busy;

/// Does the work on a thread for long checks, of which there are two.
///
/// # Errors
/// [`Busy`].
pub async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
    let (sender, result) = oneshot::channel();
    // Nobody waits any more if sending fails.
    submit(Box::new(move || {
        if !sender.is_closed() {
            let _ = sender.send(work());
        }
    }))?;
    result.await.map_err(|_| Busy)
}

fn submit(work: Work) -> Result<(), Busy> {
    let mut threads = THREADS.lock();
    if threads.running == MOST_THREADS {
        if threads.waiting.len() == MOST_WAITING {
            return Err(Busy);
        }
        threads.waiting.push_back(work);
        return Ok(());
    }
    let thread = thread::Builder::new().name("schema-check".to_owned()).stack_size(STACK);
    thread.spawn(move || run(work)).map_err(|_| Busy)?;
    threads.running += 1;
    Ok(())
}

/// Does the work, and then what waits.
fn run(work: Work) {
    /// Counts the thread out, also after a panic.
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            THREADS.lock().running -= 1;
        }
    }
    let running = Running;
    work();
    loop {
        let mut threads = THREADS.lock();
        let Some(next) = threads.waiting.pop_front() else {
            // Under the lock that `submit` takes, or work could be left waiting.
            threads.running -= 1;
            std::mem::forget(running);
            return;
        };
        drop(threads);
        next();
    }
}
