//! `longhaul wrap`: durable tasks in front of one MCP server, without a configuration file.
//!
//! The configuration is written to a data directory of its own, and served as any other: over HTTP with `--listen`, else as `longhaul stdio` does.

use crate::{
    args,
    config::{self, Environment},
    generated_config, mcp_servers, output, serve, stdio,
};
use longhaul_private_dir::PrivateDir;
use sha2::{Digest, Sha256};
use std::{
    env,
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The configuration, in the data directory.
const FILE: &str = "wrap.toml";

/// Where it listens beside the socket of `longhaul stdio`, in the data directory.
const SOCKET: &str = "mcp.sock";

/// Variables that differ from one terminal, login or editor to the next, and that no server is configured by. A name that ends with `_` stands for all that
/// begin so.
const OF_THE_TERMINAL: [&str; 19] = [
    "_",
    "COLORTERM",
    "COLUMNS",
    "DBUS_",
    "DISPLAY",
    "INVOCATION_",
    "JOURNAL_",
    "LINES",
    "LONGHAUL_",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_",
    "TERM",
    "TERM_",
    "TMUX",
    "VSCODE_",
    "WINDOWID",
    "XDG_SESSION_",
];

/// Serves the wrapped command.
pub(crate) fn run(wrap: &args::Wrap) -> ExitCode {
    let prepared = env::current_dir()
        .and_then(|folder| Ok((data_dir(wrap, &folder)?, folder)))
        .and_then(|(data_dir, folder)| write_config(wrap, &data_dir, &folder).map(|file| (data_dir, file)));
    let (data_dir, file) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            output::note(&format!("longhaul: cannot prepare the data directory: {error}"));
            return ExitCode::FAILURE;
        }
    };
    if let Some(missing) = missing_program(wrap) {
        output::note(&format!("longhaul: {missing}, so there is nothing to wrap"));
        return ExitCode::from(config::EXIT_INVALID);
    }
    match &wrap.listen {
        Some(listen) => serve::run(&args::Serve::of_file(file, Some(listen.clone()), data_dir)),
        None => {
            let data_dir = Some(data_dir);
            stdio::run(&args::Stdio { file, data_dir }, true)
        }
    }
}

/// Why the command cannot be started, if the system already tells.
fn missing_program(wrap: &args::Wrap) -> Option<String> {
    match wrap.command.as_slice() {
        [url] if generated_config::is_url(url) => return None,
        [url, word, ..] if generated_config::is_url(url) => {
            return Some(format!(
                "nothing may stand behind the URL {url}, but there is {word:?} (a server that needs headers or a login goes into a file, as `[upstream.NAME]` with `url`, for `longhaul serve`)"
            ));
        }
        _ => {}
    }
    let folder = env::current_dir().ok()?;
    Environment::of_this_process().missing_program(wrap.command.first()?, None, &folder)
}

/// The data directory of the command line: it follows from the command, the folder and the environment, so the same command finds its tasks again, and
/// another account of the same server has another one.
fn data_dir(wrap: &args::Wrap, folder: &Path) -> io::Result<PathBuf> {
    if let Some(data_dir) = &wrap.data_dir {
        return std::path::absolute(data_dir);
    }
    let state = env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = state.or_else(home).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "neither XDG_STATE_HOME nor HOME is set; use --data-dir",
        )
    })?;
    let mut digest = Sha256::new();
    let mut add = |text: &[u8]| {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    };
    add(folder.as_os_str().as_encoded_bytes());
    for word in &wrap.command {
        add(word.as_bytes());
    }
    let mut variables: Vec<_> = env::vars_os()
        .filter(|(name, _)| !is_of_the_terminal(&name.to_string_lossy()))
        .collect();
    variables.sort();
    for (name, value) in variables {
        add(name.as_encoded_bytes());
        add(value.as_encoded_bytes());
    }
    let digest: String = digest
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(state.join("longhaul/wrap").join(format!("{}-{digest}", name(wrap))))
}

fn is_of_the_terminal(variable: &str) -> bool {
    OF_THE_TERMINAL.iter().any(|known| match known.strip_suffix('_') {
        Some(prefix) if !prefix.is_empty() => variable.starts_with(known),
        _ => variable == *known,
    })
}

/// The name of the server: that of the program.
fn name(wrap: &args::Wrap) -> String {
    let first = wrap.command.first().map(String::as_str).unwrap_or_default();
    if let Some((_, rest)) = first.split_once("://").filter(|_| generated_config::is_url(first)) {
        // Of the host alone: other parts of a URL may be secret.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        return mcp_servers::usable_name(host.rsplit('@').next().unwrap_or_default());
    }
    let program = Path::new(first).file_name();
    mcp_servers::usable_name(&program.unwrap_or_default().to_string_lossy())
}

fn write_config(wrap: &args::Wrap, data_dir: &Path, folder: &Path) -> io::Result<PathBuf> {
    let directory = PrivateDir::create(data_dir)?;
    let text = generated_config::of_command(
        &name(wrap),
        &wrap.command,
        folder,
        &directory.path().join(SOCKET),
        wrap.handoff.filter(|handoff| *handoff > 0),
    );
    // Replaced whole, since another process may be reading it.
    let new = format!("{FILE}.{}", std::process::id());
    let mut file = directory.file(&new, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(directory.path().join(&new), directory.path().join(FILE))?;
    Ok(directory.path().join(FILE))
}

#[cfg(test)]
mod tests {
    use super::is_of_the_terminal;

    #[test]
    fn variables_that_configure_a_server_count_and_those_of_a_terminal_do_not() {
        for name in [
            "_",
            "PWD",
            "SHLVL",
            "SSH_CONNECTION",
            "TERM",
            "TERM_PROGRAM",
            "VSCODE_PID",
        ] {
            assert!(is_of_the_terminal(name), "{name}");
        }
        for name in ["API_KEY", "PATH", "HOME", "TERMINAL_TOKEN", "PWD_HASH", "_TOKEN"] {
            assert!(!is_of_the_terminal(name), "{name}");
        }
    }
}
