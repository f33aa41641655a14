//! `longhaul tools`, `resources` and `prompts`: what a server offers.

use crate::{
    args,
    ask::{
        TerminalPrompter,
        arguments::{self, Taker},
        fields::{self, as_word},
    },
    call::waiting::Deadline,
    exit::{failure::Failure, result::Exit},
    output::{self, nearest, plain},
    servers::{self, Server, notice::with_notice},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use longhaul_client::{Connection, Json, RequestError, TaskSupport, Tool, UnusableTool};
use longhaul_core::Millis;
use serde_json::{Map, Value, json};
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

/// `longhaul tools`
pub(crate) async fn tools(args: &args::Tools) -> ExitCode {
    let listed = async {
        let (server, rest) = servers::choose(&args.server, &args.words)?;
        servers::nothing_more(&args.server, rest)?;
        list_tools(&server, args.json).await
    };
    report(within(args.timeout, listed).await, args.json)
}

/// Waits for what a server lists, but not longer than --timeout.
pub(crate) async fn within(
    timeout: Option<Millis>,
    listed: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        listed = listed => listed,
        () = Deadline::after(timeout).passed() => {
            Err(Failure::timed_out("the time of --timeout is over before the server has answered"))
        }
    }
}

/// Said of a list of tools that is known in part.
pub(crate) const MORE_TOOLS: &str = "the server may have more tools, since the next page of its list cannot be read";

/// Lists the tools of a server, and of a list that fails those on the pages before.
pub(crate) async fn list_tools(server: &Server, json: bool) -> Result<Exit, Failure> {
    // Servers list some tools only to clients that can be asked, as `call` can.
    let connection = server.connection(|options| options.inputs = Some(TerminalPrompter::new().0))?;
    let (listed, unread) = with_notice(connection.address(), connection.list_readable_tools()).await;
    let has_any = !listed.is_empty();
    let tools: Vec<Tool> = listed.into_iter().filter(|tool| server.offers(&tool.name)).collect();
    let unread = match unread {
        Some(error) if json || tools.is_empty() => return Err(error.into()),
        unread => unread,
    };
    let unusable = connection.unusable_tools();
    if json {
        let listed: Vec<Value> = tools.iter().map(tool_as_json).collect();
        let mut shown = json!({"tools": listed});
        if !unusable.is_empty() {
            let unusable = unusable
                .iter()
                .map(|tool| json!({"name": tool.name, "reason": tool.reason}));
            shown["unusableTools"] = unusable.collect::<Vec<_>>().into();
        }
        output::json_line(&shown);
    } else if tools.is_empty() && has_any {
        output::note("all tools of the server are switched off in its entry");
    } else if tools.is_empty() && unusable.is_empty() {
        output::note(match server.is_logged_in().await {
            true => "the server shows no tools to this login",
            false => "the server has no tools",
        });
    } else {
        output::text(&tools.iter().map(describe_tool).collect::<Vec<_>>().join("\n"));
    }
    for tool in &unusable {
        output::note(&cannot_be_called(tool));
    }
    connection.close().await;
    match unread {
        Some(error) => {
            output::note(MORE_TOOLS);
            Err(error.into())
        }
        None => Ok(Exit::Answered),
    }
}

/// Why a tool is not called that the server has.
pub(crate) fn switched_off(tool: &str) -> String {
    format!("the tool `{tool}` is switched off in the entry of its server")
}

/// Why a tool is not listed. MCP wants it to be left out.
pub(crate) fn cannot_be_called(tool: &UnusableTool) -> String {
    let line = format!("the tool `{}` cannot be called: {}", tool.name, tool.reason);
    plain(&line, "")
}

fn tool_as_json(tool: &Tool) -> Value {
    let mut shown = json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema});
    if let Some(title) = &tool.title {
        shown["title"] = title.as_str().into();
    }
    if let Some(schema) = &tool.output_schema {
        shown["outputSchema"] = schema.clone();
    }
    shown
}

/// A tool with its arguments, a line each.
fn describe_tool(tool: &Tool) -> String {
    let task = match tool.task_support {
        TaskSupport::Required => "  (always a task)",
        TaskSupport::Optional | TaskSupport::Forbidden => "",
    };
    let mut lines = format!("{}{task}\n", plain(&tool.name, ""));
    for line in tool.description.lines().take_while(|line| !line.trim().is_empty()) {
        lines.push_str(&format!("    {}\n", plain(line, "")));
    }
    for (name, schema) in tool.input_schema["properties"].as_object().into_iter().flatten() {
        let required = fields::is_required(&tool.input_schema, name);
        lines.push_str(&format!(
            "    {}\n",
            fields::describe(name, schema, &tool.input_schema, required)
        ));
    }
    if let Some(elsewhere) = tool.input_schema["$ref"]
        .as_str()
        .filter(|target| !target.starts_with('#'))
    {
        lines.push_str(&format!(
            "    (its arguments are described at {})\n",
            plain(elsewhere, "")
        ));
    }
    lines
}

/// `longhaul resources`
pub(crate) async fn resources(args: &args::Resources) -> ExitCode {
    let listed = async {
        let (server, rest) = servers::choose(&args.server, &args.words)?;
        servers::nothing_more(&args.server, rest)?;
        let connection = server.connection(|_| {})?;
        match &args.uri {
            Some(uri) => {
                let read = with_notice(connection.address(), connection.read_resource(uri)).await?;
                print_resource(&read, args.json)?;
            }
            None => list_resources(&connection, args.json).await?,
        }
        connection.close().await;
        Ok(Exit::Answered)
    };
    report(within(args.timeout, listed).await, args.json)
}

async fn list_resources(connection: &Connection, json: bool) -> Result<(), Failure> {
    let listed = async {
        let resources = connection.list_resources().await?;
        // Not all servers have the method.
        let templates = connection.list_resource_templates().await.unwrap_or_default();
        Ok::<_, RequestError>((resources, templates))
    };
    let (resources, templates) = with_notice(connection.address(), listed).await?;
    if json {
        output::json_line(&json!({"resources": resources, "resourceTemplates": templates}));
        return Ok(());
    }
    if resources.is_empty() && templates.is_empty() {
        output::note("the server has no resources");
    }
    let line = |(uri, entry): (&str, &Value)| {
        let name = plain(entry["name"].as_str().unwrap_or_default(), "");
        format!("{}  {name}", plain(uri, "")).trim_end().to_owned() + "\n"
    };
    let lines = known_by(&resources, "uri")
        .chain(known_by(&templates, "uriTemplate"))
        .map(line);
    output::text(&lines.collect::<String>());
    Ok(())
}

/// The entries of a list by what they are used with. Those without it cannot be used.
fn known_by<'a>(entries: &'a [Value], member: &'static str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let known = move |entry: &'a Value| Some((entry[member].as_str()?, entry));
    match entries.iter().filter(|entry| known(entry).is_none()).count() {
        0 => {}
        unusable => output::note(&format!(
            "{unusable} of the list cannot be used, since they have no `{member}`"
        )),
    }
    entries.iter().filter_map(known)
}

/// Texts and bytes as they are, so that they can be piped; on a terminal, what kind of bytes there are.
fn print_resource(result: &Json, json: bool) -> Result<(), Failure> {
    let value: Value = serde_json::from_str(result.as_str()).unwrap_or_default();
    if json {
        output::json_line(&value);
        return Ok(());
    }
    for content in value["contents"].as_array().into_iter().flatten() {
        let uri = plain(&as_word(&content["uri"]), "");
        match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), _) => output::text(text),
            (None, Some(blob)) => {
                let bytes = STANDARD.decode(blob).map_err(|error| {
                    Failure::no_server(format!("the server's response is invalid: the blob of {uri}: {error}"))
                })?;
                if io::stdout().is_terminal() {
                    let kind = plain(content["mimeType"].as_str().unwrap_or("of unknown type"), "");
                    output::note(&format!(
                        "{uri}: {} bytes, {kind}; redirect standard output to save them, or use --json",
                        bytes.len()
                    ));
                } else {
                    output::bytes(&bytes);
                }
            }
            (None, None) => output::note(&format!("{uri}: no content")),
        }
    }
    Ok(())
}

/// `longhaul prompts`
pub(crate) async fn prompts(args: &args::Prompts) -> ExitCode {
    let listed = async {
        let (server, rest) = servers::choose(&args.server, &args.words)?;
        let connection = server.connection(|_| {})?;
        match rest.split_first() {
            Some((name, words)) => fill_in_prompt(&connection, name, words, args.json).await?,
            None => list_prompts(&connection, args.json).await?,
        }
        connection.close().await;
        Ok(Exit::Answered)
    };
    report(within(args.timeout, listed).await, args.json)
}

async fn list_prompts(connection: &Connection, json: bool) -> Result<(), Failure> {
    let prompts = with_notice(connection.address(), connection.list_prompts()).await?;
    if json {
        output::json_line(&json!({"prompts": prompts}));
        return Ok(());
    }
    if prompts.is_empty() {
        output::note("the server has no prompts");
    }
    for (name, prompt) in known_by(&prompts, "name") {
        let mut lines = format!("{}\n", plain(name, ""));
        if let Some(description) = prompt["description"].as_str() {
            lines.push_str(&format!("    {}\n", plain(description, "")));
        }
        let schema = prompt_schema(prompt);
        for (name, argument) in schema["properties"].as_object().into_iter().flatten() {
            let required = fields::is_required(&schema, name);
            lines.push_str(&format!(
                "    {}\n",
                fields::describe(name, argument, &Value::Null, required)
            ));
        }
        output::text(&lines);
    }
    Ok(())
}

/// The arguments of a prompt as the schema of an object. They are texts.
fn prompt_schema(prompt: &Value) -> Value {
    let mut schema = json!({"type": "object", "properties": {}, "required": []});
    for argument in prompt["arguments"].as_array().into_iter().flatten() {
        let Some(name) = argument["name"].as_str() else {
            continue;
        };
        schema["properties"][name] = json!({"type": "string"});
        if let Some(description) = argument["description"].as_str() {
            schema["properties"][name]["description"] = description.into();
        }
        if let Some(required) = schema["required"]
            .as_array_mut()
            .filter(|_| argument["required"] == true)
        {
            required.push(name.into());
        }
    }
    schema
}

/// That there is no such prompt.
pub(crate) fn no_prompt(name: &str, prompts: &[Value]) -> Failure {
    let hint = nearest::suggestion(name, prompts.iter().filter_map(|prompt| prompt["name"].as_str()));
    Failure::usage(format!(
        "there is no prompt `{name}`; {}",
        hint.as_deref().unwrap_or("the server has no prompts")
    ))
}

async fn fill_in_prompt(connection: &Connection, name: &str, words: &[String], json: bool) -> Result<(), Failure> {
    let words = arguments::parse(words).map_err(Failure::usage)?;
    let prompts = with_notice(connection.address(), connection.list_prompts()).await?;
    let Some(prompt) = prompts.iter().find(|prompt| prompt["name"] == name) else {
        return Err(no_prompt(name, &prompts));
    };
    let arguments = arguments::fit(words, Map::new(), &prompt_schema(prompt), Taker::Prompt).map_err(Failure::usage)?;
    let filled = with_notice(connection.address(), connection.get_prompt(name, &arguments)).await?;
    let value: Value = serde_json::from_str(filled.as_str()).unwrap_or_default();
    if json {
        output::json_line(&value);
        return Ok(());
    }
    for message in value["messages"].as_array().into_iter().flatten() {
        let text = message["content"]["text"].as_str();
        let text = text.map_or_else(|| message["content"].to_string(), str::to_owned);
        output::text(&format!("{}: {text}", as_word(&message["role"])));
    }
    Ok(())
}

fn report(done: Result<Exit, Failure>, json: bool) -> ExitCode {
    match done {
        Ok(exit) => exit,
        Err(failure) => failure.report(json),
    }
    .into()
}
