//! Which revision is spoken with an upstream that has both.

use crate::{client::Client, upstream::Tasks, world::RunningGateway};
use longhaul_client::{ChildOptions, EraChoice};
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::json;

/// The revisions that a client of 2025-11-25 and one of 2026-07-28 are served in.
async fn served(extensions: &str, era: EraChoice, shared: bool) -> [String; 2] {
    let directory = tempfile::tempdir().unwrap();
    let mut child = ChildOptions::new("sh", ["-c", include_str!("both_revisions.sh")]);
    child.env.push(("EXTENSIONS".into(), extensions.into()));
    let options = UpstreamOptions {
        era,
        shared,
        ..UpstreamOptions::new("both", Target::Command(child))
    };
    let gateway = RunningGateway::start(directory.path(), vec![options]).await;
    let mut revisions = Vec::new();
    for tasks in [Tasks::None, Tasks::Modern] {
        let client = Client::connect(&gateway.url, tasks);
        revisions.push(client.text("revision", json!({})).await);
    }
    gateway.stop().await;
    revisions.try_into().unwrap()
}

#[tokio::test]
async fn a_client_is_served_in_its_own_revision() {
    for shared in [false, true] {
        let revisions = served("{}", EraChoice::Auto, shared).await;
        assert_eq!(revisions, ["2025-11-25", "2026-07-28"]);
    }
}

#[tokio::test]
async fn an_upstream_with_tasks_makes_them_for_clients_of_either_revision() {
    let tasks = r#"{"io.modelcontextprotocol/tasks":{}}"#;
    let revisions = served(tasks, EraChoice::Auto, false).await;
    assert_eq!(revisions, ["2026-07-28", "2026-07-28"]);
}

#[tokio::test]
async fn the_configured_revision_is_spoken_for_all_clients() {
    let legacy = served("{}", EraChoice::Legacy, false).await;
    assert_eq!(legacy, ["2025-11-25", "2025-11-25"]);
    let modern = served("{}", EraChoice::Modern, false).await;
    assert_eq!(modern, ["2026-07-28", "2026-07-28"]);
}
