//! Tools that change what the server offers.

use longhaul::{Error, Prompt, TaskContext, Tool};

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new("test_trigger_tool_change", change_tools).description("Adds a tool, or removes it again"),
        Tool::new("test_trigger_prompt_change", change_prompts).description("Adds a prompt, or removes it again"),
    ]
}

async fn change_tools(cx: TaskContext) -> Result<&'static str, Error> {
    if cx.server().remove_tool("test_added") {
        return Ok("Removed.");
    }
    let added = Tool::new("test_added", async || "I was added.").description("Added while the server runs");
    cx.server().put_tool(added).await?;
    Ok("Added.")
}

async fn change_prompts(cx: TaskContext) -> Result<&'static str, Error> {
    if cx.server().remove_prompt("test_added") {
        return Ok("Removed.");
    }
    let added = Prompt::new("test_added", async || "I was added.").description("Added while the server runs");
    cx.server().put_prompt(added)?;
    Ok("Added.")
}
