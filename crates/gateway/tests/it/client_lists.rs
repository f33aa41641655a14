//! Lists that are not the same for all clients: each has its own process of the upstream.

use crate::{
    client::Client,
    isolation::ByHeader,
    upstream::Tasks,
    world::{RunningGateway, guarded, until, without_handoff},
};
use longhaul_client::{ChildOptions, WatchFilter};
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Map, json};
use std::path::Path;

async fn gateway(directory: &Path) -> RunningGateway {
    let child = ChildOptions::new("sh", ["-c", include_str!("client_lists.sh")]);
    let upstreams = vec![without_handoff(UpstreamOptions::new("up", Target::Command(child)))];
    RunningGateway::start_with(directory, upstreams, Some(ByHeader)).await
}

async fn tools(client: &Client) -> Vec<String> {
    let tools = guarded("the tools", client.connection.list_tools()).await.unwrap();
    let mut names: Vec<String> = tools.into_iter().map(|tool| tool.name).collect();
    names.sort();
    names
}

async fn prompts(client: &Client) -> usize {
    guarded("the prompts", client.connection.list_prompts())
        .await
        .unwrap()
        .len()
}

/// Whether the upstream tells of it or not, and whichever revision the client speaks.
#[tokio::test]
async fn what_a_call_adds_is_listed_to_its_client_alone() {
    for tasks in [Tasks::None, Tasks::Modern] {
        for adding in ["add", "add_silently"] {
            let directory = tempfile::tempdir().unwrap();
            let gateway = gateway(directory.path()).await;
            let [alice, bob] = ["alice", "bob"].map(|user| Client::connect_as(&gateway.url, tasks, Some(user)));
            let at_first = ["add", "add_silently", "drop", "keep"];
            for client in [&alice, &bob] {
                assert_eq!(tools(client).await, at_first);
            }
            assert_eq!(alice.text(adding, json!({})).await, "ran");
            let with_added = ["add", "add_silently", "added", "drop", "keep"];
            // A modern client may cache a list.
            let listing = Client::connect_as(&gateway.url, tasks, Some("alice"));
            assert_eq!(tools(&listing).await, with_added, "{adding}");
            assert_eq!(prompts(&listing).await, 1);
            assert_eq!(listing.text("added", json!({})).await, "ran");
            let prompt = listing.connection.get_prompt("added", &Map::new()).await.unwrap();
            assert!(prompt.as_str().contains("Hi"), "{prompt:?}");
            // Bob has a process of his own, or none yet.
            for has_process in [false, true] {
                let other = Client::connect_as(&gateway.url, tasks, Some("bob"));
                assert_eq!(tools(&other).await, at_first, "{has_process}");
                assert_eq!(prompts(&other).await, 0);
                assert_eq!(bob.text("keep", json!({})).await, "ran");
            }
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn what_a_call_takes_away_is_listed_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let [alice, bob] = ["alice", "bob"].map(|user| Client::connect_as(&gateway.url, Tasks::None, Some(user)));
    assert_eq!(alice.text("drop", json!({})).await, "ran");
    assert_eq!(tools(&alice).await, ["add", "add_silently", "keep"]);
    assert_eq!(tools(&bob).await, ["add", "add_silently", "drop", "keep"]);
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_is_told_of_what_its_call_adds() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let alice = Client::connect_as(&gateway.url, Tasks::None, Some("alice"));
    let filter = WatchFilter {
        tools: true,
        ..WatchFilter::default()
    };
    let mut watch = alice.connection.watch(filter).await.unwrap();
    assert_eq!(alice.text("add", json!({})).await, "ran");
    guarded("the change", watch.next()).await.unwrap();
    let engine = gateway.server.engine().unwrap();
    until("the tool", || engine.catalog().tool("added").is_some()).await;
    gateway.stop().await;
}
