//! The client that the official conformance suite runs in its client mode. The server's URL is the last argument; the scenario and its data are in
//! the environment.

use longhaul_client::{
    CallResponse, Connection, Consent, EraChoice, InputResponse, Inputs, Login, LoginOptions, Options,
    RegisteredByHand, RequestError, RpcFailure, TokenError, TokenFile, Tool,
};
use longhaul_core::BoxFuture;
use reqwest::{Url, redirect::Policy};
use serde_json::{Map, Value, json};
use std::{env, error::Error, process::ExitCode, sync::Arc};

/// The metadata document of this client, by the name that the suite knows.
const METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = env::args().next_back() else {
        return ExitCode::from(2);
    };
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match run(&url, &scenario).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str, scenario: &str) -> Result<(), Box<dyn Error>> {
    let context: Value =
        serde_json::from_str(&env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default()).unwrap_or_default();
    let mut options = Options::named("conformance-client", env!("CARGO_PKG_VERSION"));
    if env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").is_ok_and(|version| version == "2025-11-25") {
        options.era = EraChoice::Legacy;
    }
    options.inputs = Some(inputs().into());
    let folder = tempfile::tempdir()?;
    if scenario.starts_with("auth/") {
        let file = TokenFile::open(&folder.path().join("tokens.json"))?;
        options.tokens = Some(Arc::new(Login::new(url, file, login(scenario, &context))?));
    }
    let connection = Connection::open(url, options).await?;
    let tools = connection.list_tools().await?;
    match scenario {
        // The handshake and the list are all that they want.
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {}
        "http-standard-headers" => read_everything(&connection, &tools).await?,
        "json-schema-2020-12-preservation" => echo_schema(&connection, &tools).await?,
        _ => match context["toolCalls"].as_array() {
            Some(calls) => {
                for wanted in calls {
                    let tool = tools.iter().find(|tool| wanted["name"] == *tool.name);
                    let tool = tool.ok_or_else(|| format!("there is no tool {}", wanted["name"]))?;
                    let arguments = wanted["arguments"].as_object().cloned().unwrap_or_default();
                    call(&connection, tool, &arguments).await?;
                }
            }
            None => call_all(&connection, &tools).await?,
        },
    }
    connection.close().await;
    Ok(())
}

fn login(scenario: &str, context: &Value) -> LoginOptions {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let mut login = LoginOptions::default();
    login.identity.metadata_url = Some(METADATA_URL.to_owned());
    login.identity.registered = text("client_id").map(|client_id| RegisteredByHand {
        client_id,
        client_secret: text("client_secret"),
    });
    login.as_client = scenario.starts_with("auth/client-credentials");
    login.consent = Some(Arc::new(Agreeing));
    login
}

/// A user who agrees to every login at once: the authorization servers of the suite answer with a redirect.
struct Agreeing;

impl Consent for Agreeing {
    fn redirect_uri<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        Box::pin(std::future::ready(Ok("http://127.0.0.1:3000/callback".to_owned())))
    }

    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        Box::pin(async move {
            let answer = async {
                let browser = reqwest::Client::builder().redirect(Policy::none()).build()?;
                let answer = browser.get(url.clone()).send().await?;
                let location = answer.headers().get("location").ok_or("no redirect")?;
                Ok::<_, Box<dyn Error>>(Url::parse(location.to_str()?)?)
            };
            answer.await.map_err(|error| TokenError::Failed {
                reason: error.to_string(),
            })
        })
    }
}

/// Agrees to everything.
fn inputs() -> Inputs {
    Inputs::new()
        .elicit(|question| async move {
            let mut content = question.defaults();
            let fields = question.form().and_then(Result::ok).map(|form| &form.fields[..]);
            for field in fields.into_iter().flatten() {
                content
                    .entry(field.name.clone())
                    .or_insert_with(|| example_of(&field.schema()));
            }
            Ok(InputResponse::accept(content))
        })
        .sample(false, |_| async {
            Err(RpcFailure {
                code: -32603,
                message: "no model".into(),
                data: None,
            })
        })
        .roots([])
}

async fn call_all(connection: &Connection, tools: &[Tool]) -> Result<(), Box<dyn Error>> {
    for tool in tools {
        call(connection, tool, &example_arguments(tool)).await?;
    }
    Ok(())
}

async fn call(connection: &Connection, tool: &Tool, arguments: &Map<String, Value>) -> Result<(), RequestError> {
    let outcome = match connection.call_tool(tool, arguments, &mut |_| {}).await? {
        CallResponse::Done(outcome) => outcome,
        CallResponse::Task(task) => task.wait(&mut |_| {}).await?,
    };
    eprintln!("{}: {outcome:?}", tool.name);
    Ok(())
}

async fn read_everything(connection: &Connection, tools: &[Tool]) -> Result<(), Box<dyn Error>> {
    call_all(connection, tools).await?;
    for resource in connection.list_resources().await? {
        connection
            .read_resource(resource["uri"].as_str().unwrap_or_default())
            .await?;
    }
    for prompt in connection.list_prompts().await? {
        let name = prompt["name"].as_str().unwrap_or_default();
        connection.get_prompt(name, &Map::new()).await?;
    }
    Ok(())
}

/// Sends the schema of one tool to another one, as it came.
async fn echo_schema(connection: &Connection, tools: &[Tool]) -> Result<(), Box<dyn Error>> {
    let named = |echoes: bool| tools.iter().find(|tool| (tool.name == "json_schema_echo") == echoes);
    let (echo, focal) = (named(true).ok_or("no echo")?, named(false).ok_or("no focal tool")?);
    let arguments = Map::from_iter([("schema".to_owned(), focal.input_schema.clone())]);
    Ok(call(connection, echo, &arguments).await?)
}

/// Arguments that fit the tool's schema.
fn example_arguments(tool: &Tool) -> Map<String, Value> {
    let properties = tool.input_schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, schema)| (name.clone(), example_of(schema)))
        .collect()
}

fn example_of(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => schema["enum"][0].as_str().unwrap_or("text").into(),
    }
}
