//! Requests of a server before its session has begun.

use longhaul_client::{ChildOptions, ChildProcess, Connection, EraChoice, Options};

/// Asks this before it answers the handshake, and tells what it was answered as the name of its tool.
const ASKS_FIRST: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      printf '{"jsonrpc":"2.0","id":"first","method":"%s"}\n' "$0"
      read -r answer
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"0"}}}\n' "$id";;
    *'"tools/list"'*)
      name=$(printf %s "$answer" | tr -c '[:alnum:]\n-' _)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"%s","inputSchema":{"type":"object"}}]}}\n' "$id" "$name";;
  esac
done"#;

async fn answer_to(method: &str) -> String {
    let child = ChildProcess::new(ChildOptions::new("sh", ["-c", ASKS_FIRST, method]));
    let mut options = Options::named("test", "0");
    options.era = EraChoice::Legacy;
    let connection = Connection::over(child, options);
    let tools = connection.list_tools().await.unwrap();
    connection.close().await;
    tools[0].name.clone()
}

/// Lifecycle, "Initialization": a server may ping before it has answered. It waits for the answer to anything else just as long.
#[tokio::test]
async fn a_server_that_asks_before_it_answers_the_handshake_is_answered() {
    let pong = answer_to("ping").await;
    assert_eq!(pong, "__jsonrpc___2_0___id___first___result_____");
    let refused = answer_to("roots/list").await;
    assert!(refused.contains("first___error____code__-32600"), "{refused}");
}
