//! Tools that ask in rounds: the modern era's way (MRTR). They are written like any other tool.

use longhaul::{Error, TaskContext, TaskPolicy, Tool, ToolResult, schemars::JsonSchema};
use serde::Deserialize;
use std::future::IntoFuture;

pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name: &str, tool: Tool| {
        tool.description(format!("Asks in rounds: {name}"))
            .task(TaskPolicy::Never)
    };
    vec![
        tool("a name", Tool::new("test_input_required_result_elicitation", greet)),
        tool("a model", Tool::new("test_input_required_result_sampling", capital)),
        tool("roots", Tool::new("test_input_required_result_list_roots", roots)),
        tool(
            "a confirmation",
            Tool::new("test_input_required_result_request_state", confirm),
        ),
        tool(
            "three things at once",
            Tool::new("test_input_required_result_multiple_inputs", three_questions),
        ),
        tool(
            "one thing after another",
            Tool::new("test_input_required_result_multi_round", two_rounds),
        ),
        tool(
            "with a state that was tampered with",
            Tool::new("test_input_required_result_tampered_state", confirm),
        ),
        tool(
            "what the client can be asked",
            Tool::new("test_input_required_result_capabilities", what_the_client_can),
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(cx: TaskContext) -> ToolResult<String> {
    let user: Name = cx.elicit("What is your name?").key("user_name").await?;
    Ok(format!("Hello, {}!", user.name))
}

async fn capital(cx: TaskContext) -> ToolResult<String> {
    let question = cx.sample("What is the capital of France?").max_tokens(100);
    Ok(question.key("capital_question").await?.text())
}

async fn roots(cx: TaskContext) -> ToolResult<String> {
    let roots = cx.roots().key("client_roots").await?;
    Ok(format!("The client works in {} folders.", roots.len()))
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    ok: bool,
}

async fn confirm(cx: TaskContext) -> ToolResult<&'static str> {
    match cx.elicit::<Confirmation>("Is the state ok?").key("confirm").await?.ok {
        true => Ok("state-ok"),
        false => Ok("Not confirmed."),
    }
}

async fn three_questions(cx: TaskContext) -> ToolResult<String> {
    let name = cx.elicit::<Name>("What is your name?").key("user_name").into_future();
    let greeting = cx
        .sample("Write a greeting.")
        .max_tokens(50)
        .key("greeting")
        .into_future();
    let roots = cx.roots().key("client_roots").into_future();
    let (name, greeting, roots) = tokio::join!(name, greeting, roots);
    Ok(format!("{} {} ({} roots)", greeting?.text(), name?.name, roots?.len()))
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

async fn two_rounds(cx: TaskContext) -> ToolResult<String> {
    let user: Name = cx.elicit("Step 1: What is your name?").key("step1").await?;
    let favourite: Color = cx.elicit("Step 2: What is your favorite color?").key("step2").await?;
    Ok(format!("{} likes {}.", user.name, favourite.color))
}

async fn what_the_client_can(cx: TaskContext) -> Result<String, Error> {
    if cx.capabilities().elicitation_form {
        return greet(cx).await;
    }
    capital(cx).await
}
