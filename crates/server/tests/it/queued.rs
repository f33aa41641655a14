//! The status of a task that waits for a slot.

use crate::{
    clock::TestClock,
    request::Post,
    server::{Options, Server, get},
};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_queued_task_shows_what_it_waits_for() {
    let clock = TestClock::default();
    let mut options = Options::with_clock(&clock);
    options.max_running = Some(1);
    let server = Server::with(options).await;
    let session = server.session().await;
    let wait = Post::legacy_task(Some(&session), "optional", "wait");
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(server.task(&wait).await);
        // Tasks of one millisecond wait in the order of their ids, which are random.
        clock.advance(Duration::from_millis(1));
    }
    let words = [json!(null), json!("queued"), json!("queued behind 1 of your tasks")];
    for (task, words) in tasks.iter().zip(words) {
        for ask in [Post::on_task(&session, "tasks/get", task), get(task)] {
            let shown = server.result(&ask).await;
            assert_eq!((&shown["status"], &shown["statusMessage"]), (&json!("working"), &words));
        }
    }
    for task in &tasks {
        server.stage.released.count();
        server.poll(task, "completed").await;
    }
}
