//! Servers of others, compared with themselves behind the gateway.

use super::{
    InteropError,
    peer::{self, node_packages, python_packages},
    server_peer::Programs,
};
use crate::peers::node::Node;
use serde_json::{Map, Value, json};
use std::{ffi::OsStr, path::Path, process::Command};

/// The scripts of our own that use the SDKs of others.
const SDKS: [(&str, &str, &str); 3] = [
    ("fastmcp-3", "fastmcp_3.txt", "fastmcp_3.py"),
    ("fastmcp-4", "fastmcp_4.txt", "fastmcp_4.py"),
    ("mcp-1", "../python/requirements.txt", "mcp_1.py"),
];

/// Servers that people use, each from a package of its own.
const PUBLISHED: [&str; 10] = [
    "filesystem",
    "memory",
    "sequential-thinking",
    "everything",
    "commands",
    "git",
    "time",
    "fetch",
    "sqlite",
    "calculator",
];

/// The files of the servers for Node: the folder in `interop` that installs them, and the file.
fn node_file(server: &str) -> Option<(&'static str, &'static str)> {
    Some(match server {
        "filesystem" => ("upstreams", "@modelcontextprotocol/server-filesystem/dist/index.js"),
        "memory" => ("upstreams", "@modelcontextprotocol/server-memory/dist/index.js"),
        "sequential-thinking" => (
            "upstreams",
            "@modelcontextprotocol/server-sequential-thinking/dist/index.js",
        ),
        "commands" => ("upstreams", "mcp-server-commands/build/index.js"),
        "everything" => ("servers", "@modelcontextprotocol/server-everything/dist/index.js"),
        _ => return None,
    })
}

/// Installs a server, and returns how it is started: a command with its environment, as in an `mcpServers` file.
fn command(server: &str) -> Result<Value, InteropError> {
    if let Some((folder, file)) = node_file(server) {
        let mut command = Node::install()?.command();
        command.arg(node_packages(folder)?.join("node_modules").join(file));
        return Ok(entry(&command));
    }
    if let Some((_, requirements, script)) = SDKS.iter().find(|(name, ..)| *name == server) {
        return Ok(entry(&peer::python("servers", requirements, script)?));
    }
    let (requirements, code) = match server {
        "git" | "time" | "fetch" => (
            "python_2.txt",
            format!("import mcp_server_{server} as server; server.main()"),
        ),
        _ => (
            "python_1.txt",
            format!("import mcp_server_{server} as server; server.main()"),
        ),
    };
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", python_packages("upstreams", requirements)?);
    command.args(["-B", "-c", &code]);
    Ok(entry(&command))
}

fn entry(command: &Command) -> Value {
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let environment = command
        .get_envs()
        .filter_map(|(name, value)| Some((text(name), Value::from(text(value?)))));
    json!({
        "command": text(command.get_program()),
        "args": command.get_args().map(text).collect::<Vec<_>>(),
        "env": environment.collect::<Map<_, _>>(),
    })
}

/// The names of the servers that are compared: one alone, or all behind one gateway.
pub(super) fn servers(alone: Option<&'static str>) -> Vec<&'static str> {
    match alone {
        Some(server) => vec![server],
        None => PUBLISHED.into_iter().chain(SDKS.map(|(name, ..)| name)).collect(),
    }
}

/// Installs the servers, and returns the command that compares them.
pub(super) fn compare(servers: &[&str]) -> Result<Command, InteropError> {
    let commands = servers
        .iter()
        .map(|server| Ok(((*server).to_owned(), command(server)?)));
    let commands = Value::Object(commands.collect::<Result<_, InteropError>>()?);
    let mut compare = Command::new("python3");
    compare.arg("-B").arg(peer::source("upstreams").join("compare.py"));
    compare.arg("--commands").arg(commands.to_string());
    Ok(compare)
}

/// Completes the command of the comparison. One server alone is behind `longhaul wrap`.
pub(super) fn connect(compare: &mut Command, is_alone: bool, programs: &Programs, folder: &Path) {
    compare.arg("--program").arg(&programs.longhaul);
    compare.arg("--folder").arg(folder);
    if is_alone {
        compare.arg("--wrap");
    }
}
