//! `longhaul inspect`: the messages between this client and a server, as they flow.

mod mask;
mod printer;

use crate::{
    args,
    ask::arguments::{self, Taker},
    exit::{failure::Failure, result::Exit},
    output, servers,
};
use longhaul_client::{Connection, Json, Outcome, RequestError};
use mask::Mask;
use printer::Printer;
use serde_json::{Map, Value, json};
use std::{process::ExitCode, sync::Arc, time::Duration};

/// A raw request may be the call of a tool, which may take long. Ctrl-C ends it.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs the command.
pub(crate) async fn run(args: &args::Inspect) -> ExitCode {
    let mask = Arc::new(Mask::default());
    match inspect(args, &mask).await {
        Ok(exit) => exit,
        Err(failure) => report(&failure, &mask, args.json),
    }
    .into()
}

/// As other commands do, without the secrets that are hidden in the messages, too.
fn report(failure: &Failure, mask: &Mask, json: bool) -> Exit {
    output::note(&format!("longhaul: {}", mask.text(&failure.to_string())));
    if json {
        output::json_line(&mask.value(json!({"error": failure.as_json()})));
    }
    failure.exit()
}

async fn inspect(args: &args::Inspect, mask: &Arc<Mask>) -> Result<Exit, Failure> {
    let (server, words) = servers::choose(&args.server, &args.words)?;
    let request = words
        .split_first()
        .map(|(method, words)| Ok::<_, Failure>((method, params(words)?)));
    let request = request.transpose()?;
    let connection = server.connection(|options| {
        options.wire = Some(Arc::new(Printer::new(&server.shown(), Arc::clone(mask), args.json)));
        if request.is_some() {
            options.request_timeout = TIMEOUT;
        }
    })?;
    let done = match request {
        Some((method, params)) => connection.send(method, params).await.map(|result| exit_for(&result)),
        None => look_around(&connection).await.map(|()| Exit::Answered),
    };
    connection.close().await;
    Ok(done?)
}

/// The status for a result: as that of `call`, if a tool returned it.
fn exit_for(result: &Json) -> Exit {
    Exit::from(&Outcome::result(result.clone()))
}

/// Values are texts, or JSON behind `:=`.
fn params(words: &[String]) -> Result<Value, Failure> {
    let words = arguments::parse(words).map_err(Failure::usage)?;
    let params = arguments::fit(words, Map::new(), &json!({"additionalProperties": true}), Taker::Tool);
    Ok(params.map_err(Failure::usage)?.into())
}

/// The handshake, and all lists that the server declares.
async fn look_around(connection: &Connection) -> Result<(), RequestError> {
    let declared = connection.server().await?.capabilities;
    let mut lists = Vec::new();
    for (capability, methods) in [
        ("tools", &["tools/list"][..]),
        ("resources", &["resources/list", "resources/templates/list"]),
        ("prompts", &["prompts/list"]),
    ] {
        // A modern server need not tell its capabilities.
        if declared.is_null() || declared[capability].is_object() {
            lists.extend(methods);
        }
    }
    for method in lists {
        match connection.send(method, Value::Null).await {
            Ok(_) => {}
            Err(RequestError::Rpc(_)) => output::note(&format!("the server refuses {method}")),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
