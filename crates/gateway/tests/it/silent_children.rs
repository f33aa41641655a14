//! Children that leave the request of 2026-07-28 unanswered, or start slowly.

use crate::{
    client::{Called, Client},
    upstream::Tasks,
    world::{RunningGateway, guarded, without_handoff},
};
use longhaul_client::ChildOptions;
use longhaul_core::TaskPolicy;
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::json;
use std::{fs, path::Path};

/// While there is no file `modern`, it speaks 2025-11-25 and is silent about what came later; else it speaks that alone.
const SERVER: &str = r#"
sleep "$DELAY"
said() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*)
      printf x >> "$DIR/asked"
      [ -e "$DIR/modern" ] && said '"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}' ;;
    *'"initialize"'*)
      case $([ -e "$DIR/modern" ] && echo modern) in
        modern) said '"error":{"code":-32601,"message":"no"}' ;;
        *) said '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
      esac ;;
    *'"tools/list"'*) said '"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) said '"result":{"resultType":"complete","content":[{"type":"text","text":"hi"}]}' ;;
    *'"method":"notifications'*) ;;
    *) [ -n "$id" ] && said '"error":{"code":-32601,"message":"no"}' ;;
  esac
done"#;

fn upstream(directory: &Path, argument: &str, delay: &str) -> UpstreamOptions {
    let mut child = ChildOptions::new("sh", ["-c", SERVER, argument]);
    let folder = directory.to_string_lossy().into_owned();
    for (name, value) in [("DIR", folder.as_str()), ("DELAY", delay)] {
        child.env.push((name.to_owned(), value.to_owned()));
    }
    without_handoff(UpstreamOptions::new("child", Target::Command(child)))
}

/// How often the child is asked for 2026-07-28 while a gateway starts and lists its tools.
async fn asked(directory: &Path, argument: &str) -> usize {
    let count = || fs::read(directory.join("asked")).map_or(0, |asked| asked.len());
    let before = count();
    let gateway = RunningGateway::start(directory, vec![upstream(directory, argument, "0")]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let tools = guarded("the tools", client.connection.list_tools()).await.unwrap();
    assert_eq!(tools.len(), 1);
    gateway.stop().await;
    count() - before
}

#[tokio::test]
async fn its_revision_is_remembered_over_restarts_until_it_turns_out_to_be_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    assert_eq!(asked(directory, "a").await, 1);
    assert_eq!(asked(directory, "a").await, 0);
    // Another command may be another server.
    assert_eq!(asked(directory, "b").await, 1);
    assert_eq!(asked(directory, "b").await, 0);
    fs::write(directory.join("modern"), "").unwrap();
    assert!(asked(directory, "b").await >= 1);
}

/// The time after which a call becomes a task does not count while its child starts.
#[tokio::test]
async fn a_quick_call_of_a_child_that_starts_slowly_is_no_task() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("modern"), "").unwrap();
    let mut slow = upstream(directory.path(), "a", "2");
    slow.rules[0].task = Some(TaskPolicy::After(1_000));
    let gateway = RunningGateway::start(directory.path(), vec![slow]).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let called = client.start("echo", json!({})).await.unwrap();
    assert!(matches!(called, Called::Done(_)), "it became a task");
    gateway.stop().await;
}
