//! What is reported while a command runs.

use super::support::{Server, becomes, create, outcome};
use longhaul_runtime::LogRange;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_progress_are_reported_and_the_log_is_readable() {
    let mut server = Server::running("echo 3/8; until [ -e go ]; do sleep 0.01; done; echo 8/8");
    server.definition.progress = Some(r"(?<current>\d+)/(?<total>\d+)".to_owned());
    let engine = server.start().await;
    let id = create(&engine, json!({})).await.id.clone();
    let record = becomes(&engine, &id, |record| record.task.progress.is_some()).await;
    let progress = record.task.progress.unwrap();
    assert_eq!(
        (progress.current, progress.total, record.task.status.as_deref()),
        (3.0, Some(8.0), Some("3/8"))
    );
    let log = engine
        .read_log(&record.task, None, LogRange::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((log.text.as_str(), log.next), ("3/8\n", 4));
    std::fs::write(server.file("go"), "").unwrap();
    outcome(&engine, &id).await;
    let log = engine
        .read_log(
            &record.task,
            None,
            LogRange {
                offset: Some(4),
                limit: Some(100),
            },
        )
        .await
        .unwrap()
        .unwrap();
    assert_eq!((log.text.as_str(), log.offset, log.total), ("8/8\n", 4, 8));
}
