//! Numbers that no Rust type holds pass the gateway as they are written.

use crate::{
    upstream::Tasks,
    world::{RunningGateway, Seen, guarded},
};
use longhaul_client::{
    CallOptions, ChildOptions, Connection, InputResponse, Inputs, Json, JsonMembers, Options, ParsedJson,
};
use longhaul_gateway::{Target, UpstreamOptions};
use longhaul_schemas::PublishedSchema;
use std::path::Path;

const NUMBERS: &str = "[12345678901234567890123,1.10,1e400,-0]";
const RELATED_TASK_IDS: &str = "io.modelcontextprotocol/relatedTaskIds";
const RELATED: &str = r#"["a","b"]"#;
const DECLARED: &str = r#"{"com.acme/c":{"n":[1.10,1e400]}}"#;
const ANSWER: &str = r#"{"action":"accept","content":{"x":12345678901234567890123}}"#;

async fn gateway(directory: &Path, upstream: Tasks) -> RunningGateway {
    let mut child = ChildOptions::new("sh", ["-c", include_str!("exact_numbers.sh")]);
    let era = if upstream == Tasks::Modern { "modern" } else { "legacy" };
    child.env.push(("ERA".to_owned(), era.to_owned()));
    let options = UpstreamOptions::new("up", Target::Command(child));
    RunningGateway::start(directory, vec![options]).await
}

/// A client, and the params of what it was asked.
fn client(url: &str, tasks: Tasks) -> (Connection, Seen<String>) {
    let asked = Seen::<String>::default();
    let heard = asked.clone();
    let mut options = Options::named("the editor", "1.0.0");
    options.era = tasks.era();
    let inputs = Inputs::new().elicit(move |question| {
        heard
            .lock()
            .unwrap()
            .push(question.params.as_json().as_str().to_owned());
        std::future::ready(Ok(InputResponse::written(Json::trusted(ANSWER))))
    });
    options.inputs = Some(inputs.into());
    options.relayed_capabilities = JsonMembers::from([("experimental".to_owned(), Json::trusted(DECLARED))]);
    (Connection::lazy(url, options).unwrap(), asked)
}

async fn result_of(connection: &Connection, method: &str, params: &str) -> String {
    let params: JsonMembers = serde_json::from_str(params).unwrap();
    let mut options = CallOptions::default();
    options.meta = JsonMembers::from([
        ("com.acme/meta".to_owned(), Json::trusted(NUMBERS)),
        (RELATED_TASK_IDS.to_owned(), Json::trusted(RELATED)),
    ]);
    let mut ignore = |_: longhaul_client::Event<'_>| {};
    let forwarded = connection.forward(method, &params, &options, &mut ignore);
    guarded(method, forwarded).await.unwrap().as_str().to_owned()
}

#[tokio::test]
async fn numbers_pass_in_both_directions_as_they_are_written() {
    let requests = [
        ("tools/call", r#"{"name":"echo","arguments":{"n":N}}"#),
        ("prompts/get", r#"{"name":"p","arguments":{},"n":N}"#),
        ("resources/read", r#"{"uri":"note://1","n":N}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"n":N}}"#,
        ),
    ];
    let related = serde_json::from_str(RELATED).unwrap();
    PublishedSchema::TasksDraft.check("RelatedTaskIds", &related).unwrap();
    for upstream in [Tasks::Legacy, Tasks::Modern] {
        let directory = tempfile::tempdir().unwrap();
        let gateway = gateway(directory.path(), upstream).await;
        for tasks in [Tasks::None, Tasks::Modern] {
            let (connection, asked) = client(&gateway.url, tasks);
            for (method, params) in requests {
                let result = result_of(&connection, method, &params.replace('N', NUMBERS)).await;
                for member in ["n", "com.acme/meta"] {
                    let arrived = format!(r#""{member}":{NUMBERS}"#);
                    assert!(result.contains(&arrived), "{upstream:?}, {tasks:?}, {method}: {result}");
                }
                let related = format!(r#""{RELATED_TASK_IDS}":{RELATED}"#);
                assert!(result.contains(&related), "{upstream:?}, {tasks:?}, {method}: {result}");
            }
            let result = result_of(&connection, "tools/call", r#"{"name":"ask","arguments":{}}"#).await;
            let name = r#"lientInfo":{"name":"the editor""#;
            assert!(result.contains(name), "{upstream:?}, {tasks:?}: {result}");
            assert!(result.contains(ANSWER), "{upstream:?}, {tasks:?}: {result}");
            assert!(result.contains(DECLARED), "{upstream:?}, {tasks:?}: {result}");
            let asked = asked.lock().unwrap().join("");
            for number in [NUMBERS, r#""default":1.10"#, r#""maximum":12345678901234567890124"#] {
                assert!(asked.contains(number), "{upstream:?}, {tasks:?}, {number}: {asked}");
            }
            let server = connection.server().await.unwrap();
            let declared: &ParsedJson = &server.capabilities;
            let experimental = declared.member("experimental").unwrap();
            assert!(
                experimental.as_str().contains(r#""com.acme/k":{"n":[1.10,1e400]}"#),
                "{experimental:?}"
            );
        }
        gateway.stop().await;
    }
}
