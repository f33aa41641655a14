//! Over a pair of streams.
#![expect(clippy::disallowed_methods, reason = "real pipes and processes are not simulated")]

use http::HeaderMap;
use longhaul_client::{
    CallResponse, ChildOptions, ChildProcess, Connection, Event, Options, Outcome, Outgoing, RequestError,
    StreamTransport, Transport,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

/// The server's end of the pipe.
pub(crate) struct Server {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) writer: WriteHalf<DuplexStream>,
}

impl Server {
    pub(crate) fn connected() -> (Connection, Self) {
        Self::connected_with(Options::named("test", "0"), 1 << 20)
    }

    /// `buffer`: the bytes that either side may send before the other one reads.
    pub(crate) fn connected_with(options: Options, buffer: usize) -> (Connection, Self) {
        let (client, server) = tokio::io::duplex(buffer);
        let (reader, writer) = tokio::io::split(client);
        let transport = StreamTransport::new("the test", reader, writer, 10_000);
        let (lines, writer) = tokio::io::split(server);
        let server = Self {
            lines: BufReader::new(lines).lines(),
            writer,
        };
        (Connection::over(transport, options), server)
    }

    /// The next message of the client.
    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            .await;
    }

    pub(crate) async fn discovered(&mut self) {
        let request = self.next().await;
        assert_eq!(request["method"], "server/discover");
        let result =
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
        self.answer(&request, result).await;
    }

    /// As a server of 2025-11-25.
    pub(crate) async fn initialized(&mut self) {
        let discover = self.next().await;
        let error = json!({"code": -32601, "message": "?"});
        let refused = json!({"jsonrpc": "2.0", "id": discover["id"], "error": error});
        self.send(&refused).await;
        let initialize = self.next().await;
        let server_info = json!({"name": "old", "version": "1"});
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server_info});
        self.answer(&initialize, result).await;
        assert_eq!(self.next().await["method"], "notifications/initialized");
    }

    pub(crate) async fn listed(&mut self) {
        let request = self.next().await;
        assert_eq!(request["method"], "tools/list");
        let tools = json!([{"name": "work", "inputSchema": {"type": "object"}}]);
        self.answer(&request, json!({"resultType": "complete", "tools": tools}))
            .await;
    }
}

#[tokio::test]
async fn messages_of_concurrent_calls_are_told_apart() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let (one, two) = (server.next().await, server.next().await);
        for (request, progress) in [(&two, 2), (&one, 1), (&two, 3)] {
            let params = json!({"progressToken": request["params"]["_meta"]["progressToken"], "progress": progress});
            server
                .send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                .await;
        }
        for request in [&two, &one] {
            let text = request["params"]["arguments"]["n"].to_string();
            server
                .answer(request, json!({"content": [{"type": "text", "text": text}]}))
                .await;
        }
    };
    let calls = async {
        let tools = connection.list_tools().await.unwrap();
        let call = async |n: u32| {
            let mut progress = Vec::new();
            let arguments = Map::from_iter([("n".to_owned(), n.into())]);
            let mut observe = |event: Event<'_>| {
                if let Event::Progress(made) = event {
                    progress.push(made.progress as u32);
                }
            };
            let done = connection.call_tool(&tools[0], &arguments, &mut observe).await;
            let CallResponse::Done(Outcome::Result { json, .. }) = done.unwrap() else {
                panic!("not a result")
            };
            let done = json.as_str().to_owned();
            (done, progress)
        };
        tokio::join!(call(1), call(2))
    };
    let ((one, two), ()) = tokio::join!(calls, script);
    assert!(
        one.0.contains(r#""text":"1""#) && two.0.contains(r#""text":"2""#),
        "{one:?} {two:?}"
    );
    assert_eq!((one.1, two.1), (vec![1], vec![2, 3]));
}

/// A server that does not answer the modern request is a legacy one.
#[tokio::test(start_paused = true)]
async fn silence_means_a_legacy_server() {
    let (connection, mut server) = Server::connected();
    let script = async {
        assert_eq!(server.next().await["method"], "server/discover");
        let initialize = server.next().await;
        assert_eq!(initialize["method"], "initialize");
        let result =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}});
        server.answer(&initialize, result).await;
        assert_eq!(server.next().await["method"], "notifications/initialized");
        // A request of the server at any time.
        server
            .send(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}))
            .await;
        assert_eq!(server.next().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    };
    let (described, ()) = tokio::join!(connection.server(), script);
    assert_eq!(described.unwrap().info["name"], "old");
}

#[tokio::test]
async fn a_call_that_is_no_longer_awaited_is_cancelled_by_a_message() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.listed().await;
        let request = server.next().await;
        assert_eq!(request["method"], "tools/call");
        request["id"].clone()
    };
    let calling = async {
        let tools = connection.list_tools().await.unwrap();
        connection.call_tool(&tools[0], &Map::new(), &mut |_| {}).await
    };
    let id = tokio::select! {
        id = script => id,
        called = calling => panic!("{called:?}"),
    };
    let cancelled = server.next().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], id);
}

#[tokio::test]
async fn the_end_of_the_stream_fails_every_request() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.next().await;
        drop(server);
    };
    let (listed, ()) = tokio::join!(connection.list_tools(), script);
    assert!(matches!(listed, Err(RequestError::Unreachable { .. })), "{listed:?}");
    let again = connection.list_tools().await.unwrap_err();
    assert!(
        again
            .to_string()
            .contains("the test cannot be reached: it closed the connection"),
        "{again}"
    );
}

/// The other request goes on, and so does the connection.
#[tokio::test]
async fn a_message_that_is_too_long_fails_its_request_alone() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        let (one, other) = (server.next().await, server.next().await);
        server
            .answer(&one, json!({"tools": [], "padding": "x".repeat(20_000)}))
            .await;
        server.answer(&other, json!({"prompts": []})).await;
    };
    let (tools, prompts, ()) = tokio::join!(connection.list_tools(), connection.list_prompts(), script);
    let error = tools.unwrap_err();
    assert!(matches!(error, RequestError::TooLarge { limit: 10_000 }), "{error}");
    prompts.unwrap();
}

/// As the TypeScript SDK writes it. The client sends nothing to find out whose answer it was.
#[tokio::test]
async fn a_message_that_is_too_long_and_has_its_id_last_fails_its_request_alone() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        let (one, other) = (server.next().await, server.next().await);
        let result = json!({"id": other["id"], "tools": [], "z": "x".repeat(20_000)});
        let long = format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{}}}"#, one["id"]);
        server.send_text(&long).await;
        let third = server.next().await;
        assert_eq!(third["method"], "resources/list");
        for request in [other, third] {
            server.answer(&request, json!({"prompts": [], "resources": []})).await;
        }
    };
    let tools = async {
        let error = connection.list_tools().await.unwrap_err();
        assert!(matches!(error, RequestError::TooLarge { limit: 10_000 }), "{error}");
        connection.list_resources().await.unwrap();
    };
    let ((), prompts, ()) = tokio::join!(tools, connection.list_prompts(), script);
    prompts.unwrap();
}

/// A server that is slow to answer one request is not a new one.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_ends_no_session() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.discovered().await;
        server.next().await
    };
    let (listed, unanswered) = tokio::join!(connection.list_tools(), script);
    let error = listed.unwrap_err();
    assert!(matches!(error, RequestError::TimedOut { .. }), "{error}");
    server.answer(&unanswered, json!({"tools": []})).await;
    let (listed, ()) = tokio::join!(connection.list_tools(), server.listed());
    assert_eq!(listed.unwrap().len(), 1);
}

#[tokio::test]
async fn only_a_request_starts_a_child() {
    let child = ChildProcess::new(ChildOptions::new("there-is-no-such-program", [""; 0]));
    let message = |id| Outgoing {
        body: "{}".to_owned(),
        id,
        headers: HeaderMap::new(),
        timeout: None,
    };
    let sent = child.send(message(None)).await.map(drop);
    assert!(matches!(sent, Err(RequestError::Unreachable { .. })), "{sent:?}");
    let sent = child.send(message(Some(1))).await.map(drop);
    assert!(matches!(sent, Err(RequestError::NotStarted { .. })), "{sent:?}");
}

/// A program that speaks no MCP is named by what it writes.
#[cfg(unix)]
#[tokio::test]
async fn the_first_line_of_a_program_that_speaks_no_mcp_is_in_the_error() {
    for (script, end) in [
        ("echo Ready to serve; echo more", "it ended with"),
        ("echo Ready to serve; exec sleep 600", "it sent no message within 30 s"),
    ] {
        let child = ChildProcess::new(ChildOptions::new("sh", ["-c", script]));
        let connection = Connection::over(child, Options::named("test", "0"));
        let begun = std::time::Instant::now();
        let error = connection.list_tools().await.unwrap_err().to_string();
        assert!(
            error.contains(end) && error.contains("the first line of its output is \"Ready to serve\""),
            "{error}"
        );
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(50),
            "{:?}",
            begun.elapsed()
        );
        connection.close().await;
    }
}

/// Some servers greet people first.
#[tokio::test]
async fn a_line_before_the_first_message_is_ignored() {
    let (connection, mut server) = Server::connected();
    let listing = tokio::spawn(async move { connection.list_tools().await });
    server.writer.write_all(b"Ready to serve\n").await.unwrap();
    server.discovered().await;
    server.listed().await;
    assert_eq!(listing.await.unwrap().unwrap().len(), 1);
}

/// A legacy server that answers only after a handshake, as they do.
#[cfg(unix)]
const LEGACY: &str = r#"
echo $$ > "$0"
initialized=
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) initialized=1
      result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"0"}}';;
    *'"tools/list"'*) test -n "$initialized" && result='{"tools":[]}' || result=;;
    *) result=;;
  esac
  test -z "$id" && continue
  if test -n "$result"; then printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
  else printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"Not initialized"}}\n' "$id"; fi
done"#;

/// A child that the test sees, too.
#[cfg(unix)]
struct Seen(std::sync::Arc<ChildProcess>);

#[cfg(unix)]
impl Transport for Seen {
    fn send(&self, message: Outgoing) -> longhaul_core::BoxFuture<'_, Result<longhaul_client::Reply, RequestError>> {
        self.0.send(message)
    }

    fn listen(
        &self,
        headers: HeaderMap,
    ) -> longhaul_core::BoxFuture<'_, Result<Option<longhaul_client::Reply>, RequestError>> {
        self.0.listen(headers)
    }

    fn close(&self, headers: HeaderMap) -> longhaul_core::BoxFuture<'_, ()> {
        self.0.close(headers)
    }

    fn is_session(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn address(&self) -> &str {
        self.0.address()
    }
}

/// A child that goes on without input, and writes down each SIGTERM; so does what it has started.
#[cfg(unix)]
const STUBBORN: &str = r#"
trap 'echo term >> "$0/signals"' TERM
sh -c 'trap "" TERM; while :; do sleep 1; done' &
echo "$$ $!" > "$0/pids"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"0"}}';;
    *) result='{"tools":[]}';;
  esac
  test -n "$id" && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
while :; do sleep 1; done"#;

/// Whether a process has ended, also if nobody has asked for its status yet.
#[cfg(target_os = "linux")]
fn has_ended(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_none_or(|state| state.is_empty() || state.starts_with('Z'))
}

/// SIGTERM comes first, and SIGKILL to the whole process group.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_with_all_that_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    let child = ChildProcess::new(ChildOptions::new(
        "sh",
        ["-c", STUBBORN, folder.path().to_str().unwrap()],
    ));
    let mut options = Options::named("test", "0");
    options.era = longhaul_client::EraChoice::Legacy;
    let connection = Connection::over(child, options);
    connection.list_tools().await.unwrap();
    let pids = std::fs::read_to_string(folder.path().join("pids")).unwrap();
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert!(pids.len() == 2 && !pids.iter().any(|pid| has_ended(pid)), "{pids:?}");
    connection.close().await;
    let signals = std::fs::read_to_string(folder.path().join("signals")).unwrap();
    assert_eq!(signals, "term\n");
    let killed = async {
        while !pids.iter().all(|pid| has_ended(pid)) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let killed = tokio::time::timeout(std::time::Duration::from_secs(60), killed).await;
    killed.expect("bounded time");
}

/// A child that has died between two requests.
#[cfg(unix)]
#[tokio::test]
async fn a_child_that_has_ended_gets_a_new_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let options = ChildOptions::new("sh", ["-c", LEGACY, pid.to_str().unwrap()]);
    let child = std::sync::Arc::new(ChildProcess::new(options));
    let connection = Connection::over(Seen(std::sync::Arc::clone(&child)), {
        let mut options = Options::named("test", "0");
        options.era = longhaul_client::EraChoice::Legacy;
        options
    });
    for _ in 0..3 {
        assert_eq!(connection.list_tools().await.unwrap().len(), 0);
        let pid = std::fs::read_to_string(&pid).unwrap();
        let killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status();
        assert!(killed.unwrap().success());
        while !child.has_ended() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    connection.close().await;
}

/// A byte order mark, white space, and lines in another encoding, also before the first message.
#[tokio::test]
async fn what_is_around_messages_is_ignored() {
    let (connection, mut server) = Server::connected();
    let script = async {
        server.writer.write_all(b"caf\xe9 server started\n").await.unwrap();
        let request = server.next().await;
        let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        let line = format!("\u{feff}  {answer} \r\n");
        server.writer.write_all(line.as_bytes()).await.unwrap();
        server.writer.write_all(b"\xff\xfe\r\n\n").await.unwrap();
        server.listed().await;
    };
    let (tools, ()) = tokio::join!(connection.list_tools(), script);
    assert_eq!(tools.unwrap().len(), 1);
}

/// Silence costs some seconds for the first child, and nothing for the next one.
#[tokio::test(start_paused = true)]
async fn the_era_of_a_silent_child_is_remembered() {
    let options = Options::named("test", "0");
    for is_first in [true, false] {
        let (connection, mut server) = Server::connected_with(options.clone(), 1 << 20);
        let script = async {
            let mut request = server.next().await;
            assert_eq!(request["method"] == "server/discover", is_first);
            if is_first {
                request = server.next().await;
            }
            assert_eq!(request["method"], "initialize");
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            server.answer(&request, result).await;
        };
        let (described, ()) = tokio::join!(connection.server(), script);
        assert!(!described.unwrap().is_modern());
    }
}
