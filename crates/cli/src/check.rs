//! `longhaul check`: validates a configuration and prints what it would serve.

use crate::{
    args,
    config::{self, AuthConfig, Config, ConfigError, Environment, Problem, ServerConfig},
    output,
};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Checks the file and prints the problems found.
pub(crate) fn run(check: &args::Check) -> ExitCode {
    let config = config::load(&check.file, &Environment::of_this_process());
    match (config, check.json) {
        (Ok(config), true) => output::json_line(&valid_json(&config)),
        (Ok(config), false) => {
            warn(&check.file.display().to_string(), &config.warnings);
            output::text(&describe(&config));
        }
        (Err(error), true) => {
            output::json_line(&invalid_json(&error));
            return ExitCode::from(config::EXIT_INVALID);
        }
        (Err(error), false) => {
            output::note(&error.to_string());
            warn(&error.file, &error.warnings);
            return ExitCode::from(config::EXIT_INVALID);
        }
    }
    ExitCode::SUCCESS
}

/// Prints warnings: settings that are valid but probably a mistake.
pub(crate) fn warn(file: &str, warnings: &[Problem]) {
    for warning in warnings {
        output::note(&format!("warning: {}", warning.at(file)));
    }
}

fn describe(config: &Config) -> String {
    let server = &config.server;
    let width = config
        .tools
        .iter()
        .map(|tool| tool.name.len())
        .max()
        .unwrap_or_default();
    let mut text = format!(
        "`{}` would listen on {}://{}/mcp, serve {}, and keep its data in {}\n",
        server.name,
        scheme(server),
        server.listen,
        access(&server.auth),
        server.data_dir.display()
    );
    for tool in &config.tools {
        let summary = tool.description.lines().next().unwrap_or_default();
        text.push_str(&format!("  {:width$}  {summary}\n", tool.name));
    }
    text
}

fn scheme(server: &ServerConfig) -> &'static str {
    if server.tls.is_some() { "https" } else { "http" }
}

/// Who may come in.
fn access(auth: &AuthConfig) -> String {
    let mut who = Vec::new();
    if auth.api_keys {
        who.push("holders of API keys");
    }
    if !auth.issuers.is_empty() {
        who.push("holders of tokens of its issuers");
    }
    if auth.unauthenticated {
        who.push("anyone");
    } else if auth.same_user != Some(false) {
        who.push("processes of this user");
    } else if who.is_empty() {
        who.push("every user of this machine");
    }
    who.join(" and ")
}

fn valid_json(config: &Config) -> Value {
    let tools: Vec<Value> = config
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description}))
        .collect();
    let server = &config.server;
    json!({
        "ok": true,
        "server": {"name": server.name, "listen": server.listen.to_string(), "tls": server.tls.is_some(), "access": access(&server.auth), "dataDir": server.data_dir},
        "tools": tools,
        "warnings": problems_json(&config.warnings),
    })
}

fn invalid_json(error: &ConfigError) -> Value {
    json!({
        "ok": false,
        "file": error.file,
        "problems": problems_json(&error.problems),
        "warnings": problems_json(&error.warnings),
    })
}

fn problems_json(problems: &[Problem]) -> Vec<Value> {
    problems
        .iter()
        .map(|problem| json!({"line": problem.line, "message": problem.message}))
        .collect()
}
