//! What happens to the folders of expired tasks, and to a database from before their removal.

use super::fixtures::{children, launcher, until, until_exists};
use super::support::{Server, create, outcome};
use longhaul_runtime::{LogRange, Ports, Provider};
use longhaul_upstream::command::CommandProvider;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_go_with_their_task() {
    let server = Server::running("echo x");
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id;
    outcome(&engine, &id).await;
    until("the supervisor is reaped", || children().is_empty().then_some(()));
    let provider = CommandProvider::new(server.attempts.clone(), launcher(), Ports::system());
    assert!(provider.bytes_held().await.unwrap() > 0);
    provider.forget(&id).await.unwrap();
    provider.forget(&id).await.unwrap();
    assert_eq!(provider.bytes_held().await.unwrap(), 0);
    assert_eq!(provider.read_log(&id, 1, LogRange::default()).await, Ok(None));
    until_exists(&server.file("attempts"));
}
