//! A fuzz target: what a server says on a pipe. See `cargo xtask fuzz`.
#![expect(clippy::disallowed_methods, reason = "the test is the outside world")]

use bolero::{TypeGenerator, generator::produce};
use longhaul_client::{
    CallOptions, CallResponse, Connection, EraChoice, Event, InputResponse, Inputs, JsonMembers, Options,
    StreamTransport,
};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

/// Random cases in a test run.
const CHANCES: usize = 300;
/// The longest message that is read.
const LONGEST_MESSAGE: usize = 32 * 1024;
/// After how long without a request a server exits. Longer than the client waits for what it cannot read.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// What a server does with each request in turn. Then it exits.
#[derive(Debug, Clone, TypeGenerator)]
struct Transcript {
    is_modern: bool,
    era: u8,
    #[generator(produce::<Vec<_>>().with().len(0..24usize))]
    replies: Vec<Reply>,
}

#[derive(Debug, Clone, TypeGenerator)]
enum Reply {
    /// What a server should say.
    Sound,
    Nothing,
    Bytes(Vec<u8>),
    /// A message before the answer.
    Before(Message),
    /// In place of it.
    Instead(Message),
    /// Both in one batch.
    Batch(Message),
    /// The answer, cut off or with a byte changed.
    Damaged(u16, u8),
}

/// A message of parts that fit, or do not.
#[derive(Debug, Clone, TypeGenerator)]
struct Message {
    id: u8,
    member: u8,
    value: u8,
}

const IDS: [&str; 8] = [
    "ID",
    "\"ID\"",
    "null",
    "0",
    "ID.0",
    "-1",
    "12345678901234567890123",
    "[ID]",
];
const MEMBERS: [&str; 12] = [
    r#""result":"#,
    r#""error":"#,
    r#""result":1,"error":"#,
    r#""method":"elicitation/create","params":"#,
    r#""method":"sampling/createMessage","params":"#,
    r#""method":"roots/list","params":"#,
    r#""method":"tasks/get","params":"#,
    r#""method":"notifications/progress","params":"#,
    r#""method":"notifications/tasks/status","params":"#,
    r#""method":"notifications/cancelled","params":"#,
    r#""method":"notifications/message","params":"#,
    r#""method":"ping","x":"#,
];
const VALUES: [&str; 20] = [
    "{}",
    "null",
    "[1e400]",
    "12345678901234567890123",
    r#"{"resultType":"surprise"}"#,
    r#"{"resultType":"complete","content":[],"structuredContent":1e400}"#,
    r#"{"resultType":"input_required","requestState":"s"}"#,
    r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}}}"#,
    r#"{"resultType":"input_required","inputRequests":{"a":null,"b":{"method":"roots/list"}}}"#,
    r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":null,"pollIntervalMs":1}"#,
    r#"{"resultType":"complete","taskId":"t","status":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}}}"#,
    r#"{"resultType":"complete","taskId":"t","status":"completed","result":{"content":[]}}"#,
    r#"{"resultType":"complete","taskId":"t","status":"failed","error":{"code":-1,"message":"x"}}"#,
    r#"{"task":{"taskId":"t","status":"working","pollInterval":1}}"#,
    r#"{"taskId":"t","status":"input_required","pollInterval":0}"#,
    r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"https://a.example","elicitationId":"e","message":"?"}]}}"#,
    r#"{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}"#,
    r#"{"code":-32602,"message":"Task not found"}"#,
    r#"{"tools":[],"nextCursor":"again"}"#,
    r#"{"progressToken":ID,"progress":1e400,"message":"?","requestId":ID,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#,
];

impl Message {
    fn write(&self, id: &str) -> String {
        let pick = |all: &[&str], nth: u8| all[usize::from(nth) % all.len()].replace("ID", id);
        format!(
            r#"{{"jsonrpc":"2.0","id":{},{}{}}}"#,
            pick(&IDS, self.id),
            pick(&MEMBERS, self.member),
            pick(&VALUES, self.value)
        )
    }
}

/// The answer of a server that has what the client asks for.
fn sound(method: &str, is_modern: bool) -> Value {
    let capabilities = json!({
        "tools": {}, "prompts": {}, "completions": {}, "extensions": {"io.modelcontextprotocol/tasks": {}},
        "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}},
    });
    let result = match (method, is_modern) {
        ("server/discover", true) => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities})
        }
        ("initialize", false) => {
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}})
        }
        ("server/discover", false) | ("initialize", true) => return json!({"error": {"code": -32601, "message": "no"}}),
        ("tools/list", _) => json!({
            "resultType": "complete",
            "tools": [{"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}],
        }),
        ("tasks/get", _) => {
            json!({"resultType": "complete", "taskId": "t", "status": "completed", "result": {"content": []}})
        }
        _ => json!({"resultType": "complete", "content": [], "messages": []}),
    };
    json!({"result": result})
}

async fn serve(server: DuplexStream, transcript: Transcript) {
    let (reader, mut writer) = tokio::io::split(server);
    let mut lines = BufReader::new(reader).lines();
    let mut replies = transcript.replies.into_iter();
    while let Ok(Ok(Some(line))) = tokio::time::timeout(PATIENCE, lines.next_line()).await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let (Some(id), Some(method)) = (request.get("id"), request["method"].as_str()) else {
            continue;
        };
        let Some(reply) = replies.next() else { return };
        let id = id.to_string();
        let mut answer = sound(method, transcript.is_modern);
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = request["id"].clone();
        let answer = answer.to_string();
        let bytes = match reply {
            Reply::Sound => answer.into_bytes(),
            Reply::Nothing => continue,
            Reply::Bytes(bytes) => bytes,
            Reply::Before(message) => format!("{}\n{answer}", message.write(&id)).into_bytes(),
            Reply::Instead(message) => message.write(&id).into_bytes(),
            Reply::Batch(message) => format!("[{},{answer}]", message.write(&id)).into_bytes(),
            Reply::Damaged(at, byte) => {
                let mut bytes = answer.into_bytes();
                let at = usize::from(at) % bytes.len();
                match byte {
                    0 => bytes.truncate(at),
                    byte => bytes[at] = byte,
                }
                bytes
            }
        };
        if writer.write_all(&bytes).await.is_err() || writer.write_all(b"\n").await.is_err() {
            return;
        }
    }
}

/// Calls that are open at once, one of which may become a task.
async fn use_all(connection: &Connection) {
    let call = async {
        let Ok(Some(tool)) = connection.tool("t").await else {
            return;
        };
        let arguments = Map::new();
        if let Ok(CallResponse::Task(task)) = connection.call_tool(&tool, &arguments, &mut |_| {}).await {
            let _ = task.wait(&mut |_: Event<'_>| {}).await;
        }
    };
    let forward = async {
        let (params, options) = (JsonMembers::new(), CallOptions::default());
        let _ = connection.forward("prompts/get", &params, &options, &mut |_| {}).await;
    };
    let list = async {
        let _ = connection.list_prompts().await;
    };
    tokio::join!(call, forward, list);
}

/// Whatever a server says, each call ends once the server has exited, and nothing panics.
#[test]
fn transcript() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    bolero::check!(name = "transcript")
        .with_iterations(CHANCES)
        .with_max_len(8_192)
        .with_type::<Transcript>()
        .for_each(|transcript| {
            runtime.block_on(async {
                let (client, server) = tokio::io::duplex(4 * 1024);
                let (reader, writer) = tokio::io::split(client);
                let mut options = Options::named("fuzz", "0");
                options.era = [
                    EraChoice::Auto,
                    EraChoice::Modern,
                    EraChoice::Legacy,
                    EraChoice::PreferLegacy,
                ][usize::from(transcript.era % 4)];
                let inputs = Inputs::new()
                    .elicit(async |_| Ok(InputResponse::cancel()))
                    .roots([("file:///a", "a")]);
                options.inputs = Some(inputs.into());
                let transport = StreamTransport::new("the server", reader, writer, LONGEST_MESSAGE);
                let connection = Connection::over(transport, options);
                let serving = tokio::spawn(serve(server, transcript.clone()));
                let used = tokio::time::timeout(20 * PATIENCE, use_all(&connection)).await;
                assert!(used.is_ok(), "a call waits for a server that is gone");
                serving.abort();
            });
        });
}
