//! Tasks and pauses on tokio, on which the driver's connections run, whatever executor the rest has.

use std::time::Duration;

/// The outcome of `work`, unless it takes longer than `limit`.
#[expect(
    clippy::disallowed_methods,
    reason = "how long it waits for the database decides nothing about a task"
)]
pub(crate) async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the connections of the driver run on tokio, whatever spawns the rest"
)]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

/// Runs what blocks on a thread of its own.
#[expect(clippy::disallowed_methods, reason = "as above")]
pub(crate) fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_blocking(run)
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it waits for the database decides nothing about a task"
)]
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}
