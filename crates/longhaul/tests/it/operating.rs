//! Operators see the tasks of a server in Rust, and act on them.

use longhaul::{Era, ServeError, Server, TaskContext, Tool, ToolResult, admin::AdminSettings, testing::Client};
use reqwest::Client as Http;
use serde_json::{Value, json};
use std::path::Path;

fn operator(data_dir: &Path) -> Http {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Http::builder()
        .unix_socket(data_dir.join("admin.sock"))
        .build()
        .unwrap()
}

async fn json_of(request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

async fn ships(cx: TaskContext) -> ToolResult<String> {
    let built: String = cx.step("build", async || ToolResult::Ok("built".to_owned())).await?;
    cx.step("push", async || ToolResult::Ok(())).await?;
    Ok(built)
}

fn server(data_dir: &Path) -> Server {
    Server::new("operated", "1.0.0")
        .tool(Tool::durable("ships", ships))
        .data_dir(data_dir)
        .admin(AdminSettings::default())
}

#[tokio::test]
async fn a_durable_task_is_reset_by_the_socket_in_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let running = server(directory.path()).start().await.unwrap();
    let client = Client::connect(&running, Era::Modern).await.unwrap();
    client.call("ships", json!({})).await.unwrap();
    let operator = operator(directory.path());
    let tasks = json_of(operator.get("http://localhost/api/tasks")).await;
    let id = tasks["tasks"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("http://localhost/api/tasks/{id}");
    let task = json_of(operator.get(&path)).await;
    assert_eq!(task["outcome"]["result"]["content"][0]["text"], "built", "{task}");
    assert_eq!(task["journal"].as_array().unwrap().len(), 2, "{task}");
    let reset = operator
        .post(format!("{path}/reset"))
        .header("content-type", "application/json");
    let done = json_of(reset.body(r#"{"before": 2}"#)).await;
    assert_eq!(done["done"], true, "{done}");
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_only_reads_says_how_it_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let running = server(directory.path()).start().await.unwrap();
    let client = Client::connect(&running, Era::Modern).await.unwrap();
    client.call("ships", json!({})).await.unwrap();
    drop(client);
    running.stop().await;
    drop(running);
    // As of a copy of the database.
    std::fs::remove_file(directory.path().join("node")).unwrap();
    let running = server(directory.path()).start().await.unwrap();
    let operator = operator(directory.path());
    assert_eq!(
        json_of(operator.get("http://localhost/api/stats")).await["readsOnly"],
        true
    );
    let refused = json_of(operator.post("http://localhost/api/tools/ships/pause")).await;
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("`Server::accept_restored_database`"), "{why}");
    running.stop().await;
}

/// As SIGTERM: the listener ends, and the program goes on to its own end.
#[tokio::test]
async fn a_server_that_is_told_to_stop_stops_serving() {
    let directory = tempfile::tempdir().unwrap();
    let running = server(directory.path()).start().await.unwrap();
    let listener = running.listen("127.0.0.1:0").await.unwrap();
    let drain = async {
        let drained = json_of(operator(directory.path()).post("http://localhost/api/drain")).await;
        assert_eq!(drained, json!({"stopping": true}));
    };
    tokio::join!(listener.serve_until(std::future::pending()), drain);
    running.drain_requested().await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_without_a_data_directory_is_not_operated() {
    let server = Server::new("operated", "1.0.0").admin(AdminSettings::default());
    assert!(matches!(server.start().await, Err(ServeError::AdminWithoutDataDir)));
}
