//! `longhaul wrap`: durable tasks in front of one MCP server, without a configuration file.
//!
//! The configuration is written to a data directory of its own, and served as any other: over HTTP with `--listen`, else as `longhaul stdio` does.

mod definition;
mod unused;

use crate::{
    args,
    config::{self, Environment},
    mcp_servers::{
        self,
        generated_config::{self, WrappedServer},
    },
    output,
    serve::{self, stdio},
};
use definition::{Claim, ClaimError, Definition};
use longhaul_private_dir::PrivateDir;
use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The configuration, in the data directory.
const FILE: &str = "wrap.toml";

/// Where it listens beside the socket of `longhaul stdio`, in the data directory.
const SOCKET: &str = "mcp.sock";

/// What is served, and where.
struct PreparedServer {
    data_dir: PathBuf,
    /// The configuration.
    file: PathBuf,
    /// The claim on the data directory, while it is open.
    lock: File,
}

/// Serves the wrapped command.
pub(crate) fn run(wrap: &args::Wrap) -> ExitCode {
    // Before the data directory, of which nothing is left then.
    if let Some(missing) = missing_program(wrap) {
        output::note(&format!("longhaul: {missing}"));
        return ExitCode::from(config::EXIT_INVALID);
    }
    let PreparedServer { data_dir, file, lock } = match prepare(wrap) {
        Ok(prepared) => prepared,
        Err(error) => {
            output::note(&format!("longhaul: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match &wrap.listen {
        Some(listen) => serve::run(&args::Serve::of_file(file, Some(listen.clone()), data_dir)),
        None => {
            let data_dir = Some(data_dir);
            stdio::run(&args::Stdio { file, data_dir }, Some((lock, wrap.handoff)))
        }
    }
}

/// Claims the data directory and writes the configuration.
fn prepare(wrap: &args::Wrap) -> Result<PreparedServer, ClaimError> {
    let folder = env::current_dir().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ClaimError::NoFolder,
        _ => error.into(),
    })?;
    if folder.to_str().is_none() {
        return Err(ClaimError::FolderNotUtf8);
    }
    let definition = Definition::new(wrap, &folder);
    let data_dir = data_dir(wrap, &definition)?;
    prepare_in(wrap, &definition, &folder, &data_dir).map_err(|error| match error {
        ClaimError::Io(source) => ClaimError::DataDir {
            path: data_dir.display().to_string(),
            source,
        },
        other => other,
    })
}

fn prepare_in(
    wrap: &args::Wrap,
    definition: &Definition,
    folder: &Path,
    data_dir: &Path,
) -> Result<PreparedServer, ClaimError> {
    let (directory, Claim { lock, replaced }) = loop {
        let directory = PrivateDir::create_data(data_dir)?;
        let claim = definition.claim(&directory)?;
        // Another process may have removed it, since nobody had used it for long.
        if directory.is_in_place()? {
            break (directory, claim);
        }
    };
    if let (None, Some(folder)) = (&wrap.data_dir, data_dir.parent()) {
        unused::remove(folder);
    }
    if let Some(differences) = replaced {
        output::note(&format!(
            "longhaul: the data directory {} was used before with {differences}. Tasks that are unfinished there go on with what is served now",
            data_dir.display()
        ));
    }
    let file = write_config(wrap, &directory, folder)?;
    let data_dir = data_dir.to_owned();
    Ok(PreparedServer { data_dir, file, lock })
}

/// Why the command cannot be started, if the system already tells.
fn missing_program(wrap: &args::Wrap) -> Option<String> {
    match wrap.command.as_slice() {
        [url] if generated_config::is_url(url) => return None,
        [url, word, ..] if generated_config::is_url(url) => {
            return Some(format!(
                "nothing may stand behind the URL {url}, but there is {word:?} (headers are given before it, with --header; a server that needs a login goes into a file, as `[upstream.NAME]` with `url`, for `longhaul serve`)"
            ));
        }
        _ if !wrap.header.is_empty() => {
            return Some(
                "--header is for a server at a URL: give variables to a command in its environment".to_owned(),
            );
        }
        _ => {}
    }
    let folder = env::current_dir().ok()?;
    let program = wrap.command.first()?;
    let missing = Environment::of_this_process().missing_program(program, None, &folder)?;
    // A shell makes one word of what is in quotes.
    let hint = match wrap.command.len() == 1 && program.contains(char::is_whitespace) {
        true => format!(". If the rest are its arguments, give each as a word: `longhaul wrap -- {program}`"),
        false => ", so there is nothing to wrap".to_owned(),
    };
    Some(missing + &hint)
}

/// The data directory of the command line: it follows from the definition, so the same command finds its tasks again.
fn data_dir(wrap: &args::Wrap, definition: &Definition) -> io::Result<PathBuf> {
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
    Ok(state
        .join("longhaul/wrap")
        .join(format!("{}-{}", name(wrap), definition.digest())))
}

/// The name of the server: by default that of the program.
fn name(wrap: &args::Wrap) -> String {
    if let Some(name) = &wrap.name {
        return mcp_servers::usable_name(name);
    }
    let first = wrap.command.first().map(String::as_str).unwrap_or_default();
    if let Some((_, rest)) = first.split_once("://").filter(|_| generated_config::is_url(first)) {
        // Of the host alone: other parts of a URL may be secret.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        return mcp_servers::usable_name(host.rsplit('@').next().unwrap_or_default());
    }
    let program = Path::new(first).file_name();
    mcp_servers::usable_name(&program.unwrap_or_default().to_string_lossy())
}

fn write_config(wrap: &args::Wrap, directory: &PrivateDir, folder: &Path) -> io::Result<PathBuf> {
    let text = generated_config::of_wrapped(&WrappedServer {
        name: &name(wrap),
        command: &wrap.command,
        folder,
        socket: &directory.path().join(SOCKET),
        headers: &wrap.header,
        era: wrap.era,
        is_shared: wrap.shared,
        // Else it is a matter of the connection.
        handoff: wrap.handoff.filter(|_| wrap.listen.is_some()),
    });
    // Replaced whole, since another process may be reading it.
    let new = format!("{FILE}.{}", std::process::id());
    let mut file = directory.file(&new, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(text.as_bytes())?;
    fs::rename(directory.path().join(&new), directory.path().join(FILE))?;
    Ok(directory.path().join(FILE))
}
