//! A form that MCP does not have is refused where it comes in: its upstream is told why, and nobody is asked.

use crate::{
    upstream::Tasks,
    world::{RunningGateway, Seen, guarded, with_every_call_a_task},
};
use longhaul_client::{ChildOptions, Client, Connection, InputResponse, Inputs, Options};
use longhaul_gateway::{Target, UpstreamOptions};
use serde_json::{Value, json};
use std::fs;

#[tokio::test]
async fn a_form_with_references_is_refused_and_never_put_to_a_client() {
    let circle = json!({"type": "object", "properties": {"a": {"$recursiveRef": "#"}}});
    let alias = json!({"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}});
    for (form, named) in [
        (json!({"$ref": "#"}), "`$ref`"),
        (circle, "`$recursiveRef`"),
        (alias, "`$defs`"),
    ] {
        for tasks in [Tasks::Modern, Tasks::Legacy] {
            let directory = tempfile::tempdir().unwrap();
            let seen = directory.path().join("seen");
            let mut child = ChildOptions::new("sh", ["-c", include_str!("invalid_forms.sh")]);
            child.env.push(("FORM".to_owned(), form.to_string()));
            child.env.push(("SEEN".to_owned(), seen.to_str().unwrap().to_owned()));
            let upstream = with_every_call_a_task(UpstreamOptions::new("up", Target::Command(child)));
            let gateway = RunningGateway::start(directory.path(), vec![upstream]).await;
            let asked = Seen::<String>::default();
            let heard = asked.clone();
            let mut options = Options::named("the editor", "1.0.0");
            options.era = tasks.era();
            let inputs = Inputs::new().elicit(move |question| {
                heard.lock().unwrap().push(question.message().to_owned());
                std::future::ready(Ok(InputResponse::decline()))
            });
            options.inputs = Some(inputs.into());
            let client = Client::new(Connection::lazy(&gateway.url, options).unwrap());
            let call = guarded("the call", client.start("ask", Value::Null)).await.unwrap();
            let result = guarded("the result", call.result()).await.unwrap();
            assert!(format!("{result:?}").contains("went on"), "{result:?}");
            let told: Value = serde_json::from_str(&fs::read_to_string(&seen).unwrap()).unwrap();
            let message = told["error"]["message"].as_str().unwrap();
            assert_eq!(told["error"]["code"], -32602, "{told}");
            assert!(
                message.starts_with("the form is invalid: ") && message.contains(named),
                "{message}"
            );
            assert!(asked.lock().unwrap().is_empty(), "{form}");
            gateway.stop().await;
        }
    }
}
