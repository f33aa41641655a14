//! Tasks and pauses on tokio, on which the driver's connections run, whatever executor the rest has.

use std::time::Duration;

#[expect(
    clippy::disallowed_methods,
    reason = "the connections of the driver run on tokio, whatever spawns the rest"
)]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it waits for the database decides nothing about a task"
)]
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}
