//! `longhaul complete`: the values that a server suggests for an argument.

use crate::{
    args,
    call::listings,
    exit::{failure::Failure, result::Exit},
    output,
    servers::{self, notice::with_notice},
};
use longhaul_client::{Connection, RequestError};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

const USAGE: &str =
    "name a prompt or a URI template, and what is typed of an argument: longhaul complete [SERVER] PROMPT ARG=PREFIX";

/// Runs the command.
pub(crate) async fn run(args: &args::Complete) -> ExitCode {
    match complete(args).await {
        Ok(exit) => exit,
        Err(failure) => failure.report(args.json),
    }
    .into()
}

async fn complete(args: &args::Complete) -> Result<Exit, Failure> {
    // A template of URIs is no server's URL.
    let is_template = args.words.first().is_some_and(|first| first.contains('{'));
    let (server, rest) = match is_template {
        true => (servers::choose(&args.server, &[])?.0, args.words.as_slice()),
        false => servers::choose(&args.server, &args.words)?,
    };
    let [reference, typed, known @ ..] = rest else {
        return Err(Failure::usage(USAGE));
    };
    let params = params(reference, typed, known)?;
    let connection = server.connection(|_| {})?;
    let sent = connection.send("completion/complete", params);
    let result = match with_notice(connection.address(), sent).await {
        Err(error @ RequestError::Rpc(_)) => {
            return Err(unknown_prompt(&connection, reference).await.unwrap_or(error.into()));
        }
        answered => answered?,
    };
    let result: Value = serde_json::from_str(result.as_str()).unwrap_or_default();
    let completion = &result["completion"];
    if args.json {
        output::json_line(completion);
    } else {
        for value in completion["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            output::text(&output::plain(value, ""));
        }
        if completion["hasMore"] == true {
            let shown = completion["values"].as_array().map_or(0, Vec::len);
            output::note(&match completion["total"].as_u64() {
                Some(total) => format!("these are {shown} of {total}; type more of the value"),
                None => "there are more; type more of the value".to_owned(),
            });
        }
    }
    connection.close().await;
    Ok(Exit::Answered)
}

/// That there is no such prompt, if the server has others.
async fn unknown_prompt(connection: &Connection, name: &str) -> Option<Failure> {
    if is_uri(name) {
        return None;
    }
    let prompts = connection.list_prompts().await.ok()?;
    let is_known = prompts.iter().any(|prompt| prompt["name"] == name);
    (!is_known).then(|| listings::no_prompt(name, &prompts))
}

fn is_uri(reference: &str) -> bool {
    reference.contains("://") || reference.contains('{')
}

/// The arguments behind the first one have their values already.
fn params(reference: &str, typed: &str, known: &[String]) -> Result<Value, Failure> {
    let split = |word: &str| {
        let (name, value) = word.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((name.to_owned(), value.to_owned()))
    };
    let wrong = |word: &str| Failure::usage(format!("`{word}` is not an argument; write name=value. {USAGE}"));
    let (name, value) = split(typed).ok_or_else(|| wrong(typed))?;
    let reference = match is_uri(reference) {
        true => json!({"type": "ref/resource", "uri": reference}),
        false => json!({"type": "ref/prompt", "name": reference}),
    };
    let mut params = json!({"ref": reference, "argument": {"name": name, "value": value}});
    let known = known.iter().map(|word| {
        let (name, value) = split(word).ok_or_else(|| wrong(word))?;
        Ok((name, Value::from(value)))
    });
    let known: Map<String, Value> = known.collect::<Result<_, Failure>>()?;
    if !known.is_empty() {
        params["context"] = json!({"arguments": known});
    }
    Ok(params)
}
