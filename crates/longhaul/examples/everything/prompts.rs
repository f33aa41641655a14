//! Prompts of each kind.

use crate::contents::PNG;
use longhaul::{Content, Error, Message, Prompt, RequestContext, ResourceContents, schemars::JsonSchema};
use serde::Deserialize;

pub(crate) fn prompts() -> Vec<Prompt> {
    vec![
        Prompt::new("test_simple_prompt", async || "This is a simple prompt for testing.").description("One message"),
        Prompt::new("test_prompt_with_arguments", with_arguments)
            .description("Filled in with two arguments")
            .complete_from("arg1", ["test1", "test2", "hello"]),
        Prompt::new("test_prompt_with_embedded_resource", with_resource)
            .description("A resource and what to do with it"),
        Prompt::new("test_prompt_with_image", with_image).description("A picture and what to do with it"),
        Prompt::new("test_input_required_result_prompt", with_question).description("Asks what it is about"),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct TwoArguments {
    /// The first.
    arg1: String,
    /// The second.
    arg2: String,
}

async fn with_arguments(args: TwoArguments) -> String {
    format!("Prompt with arguments: arg1='{}', arg2='{}'", args.arg1, args.arg2)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResourceArgument {
    /// Which resource.
    resource_uri: String,
}

async fn with_resource(args: ResourceArgument) -> Vec<Message> {
    let resource = ResourceContents::text(args.resource_uri, "Embedded resource content for testing.");
    vec![
        Message::user(Content::resource(resource.mime_type("text/plain"))),
        Message::user("Please process the embedded resource above."),
    ]
}

async fn with_image() -> Vec<Message> {
    vec![
        Message::user(Content::image("image/png", PNG)),
        Message::user("Please analyze the image above."),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    context: String,
}

async fn with_question(cx: RequestContext) -> Result<String, Error> {
    let topic: Topic = cx.elicit("What is it about?").key("user_context").await?;
    Ok(format!("Consider this: {}", topic.context))
}
