//! What the tests of the engine stand on: a clock they move, executors they play, a store they can trip.

mod clock;
mod fault;
mod program;
mod script;
mod world;

pub(crate) use clock::ManualClock;
pub(crate) use fault::{FaultyCreate, FaultyStore};
pub(crate) use program::{Effects, Fault, failure, program};
pub(crate) use script::{Run, Runs, Script, text};
pub(crate) use world::{CallOf, Process, World, home, retry, scope, tool};

use std::time::Duration;

/// Only a guard against hanging: what is waited for comes, however slow the machine.
#[expect(
    clippy::disallowed_methods,
    reason = "a guard against hanging; nothing depends on its length"
)]
pub(crate) async fn guarded<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// Lets everything run that can. On one thread and over the memory store that is a matter of turns, not of time: nothing waits
/// for anything but other futures and the manual clock.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Runs `future` beside the test.
#[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
pub(crate) fn beside<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(future)
}
