//! Tools that ask one question and return the answer, as the suite's legacy scenarios expect.

use longhaul::{ElicitResult, Field, Form, TaskContext, Tool, ToolResult, schemars::JsonSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new("test_sampling", sampling).description("Asks the client's model"),
        Tool::new("test_elicitation", elicitation).description("Asks the user who they are"),
        Tool::new("test_elicitation_sep1034_defaults", defaults).description("Asks with answers filled in"),
        Tool::new("test_elicitation_sep1330_enums", choices).description("Asks with choices of each kind"),
        Tool::new("test_missing_capability", missing_capability).description("Cannot work without the client's model"),
        Tool::new("test_streaming_elicitation", streaming).description("Reports progress, then asks"),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// What the model is asked.
    prompt: String,
}

async fn sampling(cx: TaskContext, args: Prompt) -> ToolResult<String> {
    let answer = cx.sample(args.prompt).max_tokens(100).await?;
    Ok(format!("LLM response: {}", answer.text()))
}

#[derive(Deserialize, JsonSchema)]
struct Question {
    /// What the user is asked.
    message: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct User {
    /// User's response.
    username: String,
    /// User's email address.
    email: String,
}

async fn elicitation(cx: TaskContext, args: Question) -> ToolResult<String> {
    let answer = cx.elicit::<User>(args.message).answer().await?;
    Ok(format!("User response: {}", describe(answer)))
}

async fn defaults(cx: TaskContext) -> ToolResult<String> {
    let form = Form::new()
        .optional("name", Field::text().default("John Doe"))
        .optional("age", Field::integer().default(30))
        .optional("score", Field::number().default(95.5))
        .optional(
            "status",
            Field::choice(["active", "inactive", "pending"]).default("active"),
        )
        .optional("verified", Field::boolean().default(true));
    ask(cx, "Please check what is filled in", form).await
}

async fn choices(cx: TaskContext) -> ToolResult<String> {
    let titled = || {
        [
            ("value1", "First Option"),
            ("value2", "Second Option"),
            ("value3", "Third Option"),
        ]
    };
    let form = Form::new()
        .optional("untitledSingle", Field::choice(["option1", "option2", "option3"]))
        .optional("titledSingle", Field::titled_choice(titled()))
        .optional(
            "legacyEnum",
            Field::named_choice([("opt1", "Option One"), ("opt2", "Option Two"), ("opt3", "Option Three")]),
        )
        .optional("untitledMulti", Field::choices(["option1", "option2", "option3"]))
        .optional("titledMulti", Field::titled_choices(titled()));
    ask(cx, "Please choose", form).await
}

async fn ask(cx: TaskContext, message: &str, form: Form) -> ToolResult<String> {
    let answer: ElicitResult<Map<String, Value>> = cx.elicit_form(message, form).answer().await?;
    Ok(format!("Elicitation completed: {}", describe(answer)))
}

fn describe(answer: ElicitResult<impl Serialize>) -> String {
    match answer {
        ElicitResult::Accepted(content) => format!("action=accept, content={}", json!(content)),
        ElicitResult::Declined => "action=decline, content={}".to_owned(),
        ElicitResult::Dismissed => "action=cancel, content={}".to_owned(),
    }
}

async fn missing_capability(cx: TaskContext) -> ToolResult<String> {
    Ok(cx.sample("Are you there?").await?.text())
}

async fn streaming(cx: TaskContext) -> ToolResult<String> {
    cx.progress(1, 2).await?;
    let user: User = cx.elicit("Who are you?").await?;
    Ok(format!("Hello, {}!", user.username))
}
