//! Children that exit at once.

use crate::world::{guarded, until};
use longhaul::{Era, Server, testing};
use longhaul_client::ChildOptions;
use longhaul_core::{BoxFuture, Clock, UnixMillis};
use longhaul_gateway::{Gateway, Target, UpstreamOptions};
use longhaul_runtime::Ports;
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// It notes what it is asked, and serves 2025-11-25 once there is a file `mended`.
const SERVER: &str = r#"
said() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  printf '%s\n' "$line" | sed -n 's/.*"method":"\([a-z/]*\)".*/\1/p' >> "$DIR/asked"
  [ -e "$DIR/mended" ] || exit 3
  case "$line" in
    *'"initialize"'*) said '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) said '"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) said '"result":{"content":[{"type":"text","text":"hi"}]}' ;;
    *) [ -n "$id" ] && said '"error":{"code":-32601,"message":"no"}' ;;
  esac
done"#;

/// Pauses before an upstream is tried again never end, and are noted in seconds.
#[derive(Default)]
struct EndlessPauses(Mutex<Vec<u64>>);

impl Clock for EndlessPauses {
    fn now(&self) -> UnixMillis {
        Ports::system().clock.now()
    }

    fn monotonic(&self) -> Duration {
        Ports::system().clock.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(duration.as_secs());
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_child_that_exits_at_once_is_started_after_longer_and_longer_pauses_and_for_a_call() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut child = ChildOptions::new("sh", ["-c", SERVER]);
    let folder = directory.to_string_lossy().into_owned();
    child.env.push(("DIR".to_owned(), folder));
    let upstreams = vec![UpstreamOptions::new("child", Target::Command(child))];
    let clock = Arc::new(EndlessPauses::default());
    let ports = Ports {
        clock: Arc::clone(&clock) as _,
        ..Ports::system()
    };
    let gateway = Gateway::new(upstreams.clone(), false, "1.0.0", None, &ports).unwrap();
    let server = Server::new("gateway", "1.0.0").provider(gateway.provider());
    let server = server.start().await.unwrap();
    let engine = server.engine().unwrap();
    let unseen = gateway.start(&engine).await;
    gateway.wait(&engine, unseen).await;
    guarded("the upstream", gateway.settled()).await;
    let asked = || std::fs::read_to_string(directory.join("asked")).unwrap();
    let mut expected = "server/discover\ninitialize\n".to_owned();
    assert_eq!(asked(), expected);

    let client = testing::Client::connect(&server, Era::Modern).await.unwrap();
    let call = || client.request("tools/call", json!({"name": "echo", "arguments": {}}));
    for nth in 0..10 {
        let missing = guarded("the call", call()).await.unwrap_err().message;
        assert!(missing.contains("exit status: 3"), "{missing}");
        // A server that knows the modern request alone exits at the other one.
        expected.push_str(if nth % 2 == 0 {
            "initialize\n"
        } else {
            "server/discover\ninitialize\n"
        });
        assert_eq!(asked(), expected);
    }
    gateway.reload(&engine, upstreams, false).await.unwrap();
    expected.push_str("initialize\n");
    until("a start for the reload", || asked() == expected).await;
    let pauses = clock.0.lock().unwrap().clone();
    assert!([16, 32, 60].iter().all(|pause| pauses.contains(pause)), "{pauses:?}");

    std::fs::write(directory.join("mended"), "").unwrap();
    // The first call may find that the start for the reload has not failed yet.
    let called = async {
        loop {
            if let Ok(called) = call().await {
                return called.to_string();
            }
        }
    };
    let called = guarded("a call that is answered", called).await;
    assert!(called.contains("hi"), "{called}");
    drop(engine);
    gateway.stop().await;
    server.stop().await;
}
