//! Prompts and their completion.

use crate::{ERAS, connect, start};
use longhaul::{CompletionRequest, Content, Message, NoArguments, Prompt, schemars::JsonSchema};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Kind,
    Thorough,
}

/// Reviews code.
#[derive(Deserialize, JsonSchema)]
struct Review {
    /// Of which language.
    language: String,
    tone: Option<Tone>,
    lines: Option<u32>,
}

async fn review(args: Review) -> Vec<Message> {
    let tone = match args.tone {
        Some(Tone::Kind) => "kindly",
        Some(Tone::Thorough) => "thoroughly",
        None => "somehow",
    };
    vec![
        Message::user(format!(
            "Review {} lines of {} {tone}.",
            args.lines.unwrap_or(10),
            args.language
        )),
        Message::assistant("Gladly.").with(Content::image("image/png", [1])),
    ]
}

fn prompt() -> Prompt {
    Prompt::new("review", review)
        .title("Review")
        .complete("language", async |request: CompletionRequest| {
            match request.arguments.get("tone").map(String::as_str) {
                Some("kind") => vec!["rust".to_owned()],
                _ => vec![format!("{}ython", request.value)],
            }
        })
}

#[tokio::test]
async fn a_prompt_is_listed_and_filled_in() {
    let server = start(|server| server.prompt(prompt())).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let listed = client.request("prompts/list", json!({})).await.unwrap();
        assert_eq!(
            listed["prompts"],
            json!([{
                "name": "review",
                "title": "Review",
                "description": "Reviews code.",
                "arguments": [
                    {"name": "language", "required": true, "description": "Of which language."},
                    {"name": "tone", "required": false},
                    {"name": "lines", "required": false},
                ],
            }])
        );
        let got = client
            .get_prompt("review", json!({"language": "rust", "tone": "kind", "lines": "3"}))
            .await
            .unwrap();
        assert_eq!(got["messages"][0]["content"]["text"], "Review 3 lines of rust kindly.");
        let kinds: Vec<&Value> = got["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["content"]["type"])
            .collect();
        assert_eq!(kinds, ["text", "text", "image"], "a message of a prompt has one block");
        let missing = client.get_prompt("review", json!({})).await.unwrap_err();
        assert_eq!(missing.code, -32602);
        let wrong = client
            .get_prompt("review", json!({"language": "rust", "lines": "many"}))
            .await
            .unwrap_err();
        assert_eq!(wrong.code, -32602, "{wrong}");
    }
}

/// An argument is completed by a function, which is given the other arguments, or from the values of its type.
#[tokio::test]
async fn arguments_are_completed() {
    let server = start(|server| server.prompt(prompt())).await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let complete = async |name: &str, value: &str, others: Value| {
            let params = json!({
                "ref": {"type": "ref/prompt", "name": "review"},
                "argument": {"name": name, "value": value},
                "context": {"arguments": others},
            });
            let completed = client.request("completion/complete", params).await.unwrap();
            completed["completion"]["values"].clone()
        };
        assert_eq!(complete("language", "p", json!({})).await, json!(["python"]));
        assert_eq!(
            complete("language", "p", json!({"tone": "kind"})).await,
            json!(["rust"])
        );
        assert_eq!(complete("tone", "TH", json!({})).await, json!(["thorough"]));
        assert_eq!(complete("lines", "1", json!({})).await, json!([]));
    }
}

/// A struct without fields is the same as no arguments. An error names the argument that cannot be read.
#[tokio::test]
async fn a_prompt_may_take_no_arguments() {
    #[derive(Deserialize, JsonSchema)]
    struct Empty {}
    let server = start(|server| {
        server
            .prompt(prompt())
            .prompt(Prompt::new("none", async |_: NoArguments| {
                [Message::user("a"), Message::assistant("b")]
            }))
            .prompt(Prompt::new("empty", async |_: Empty| "c"))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let none = client.request("prompts/get", json!({"name": "none"})).await.unwrap();
        assert_eq!(none["messages"][1]["content"]["text"], "b");
        let empty = client
            .request("prompts/get", json!({"name": "empty", "arguments": {}}))
            .await
            .unwrap();
        assert_eq!(empty["messages"][0]["content"]["text"], "c");
        let many = json!({"name": "review", "arguments": {"language": "rust", "lines": "many"}});
        let wrong = client.request("prompts/get", many).await.unwrap_err();
        assert!(wrong.message.contains("lines: invalid type"), "{}", wrong.message);
    }
}
