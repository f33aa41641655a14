//! `longhaul init`: writes a configuration file with a first tool.

mod command;
mod questions;
mod text;

use crate::{
    args, check,
    config::{self, Config, ConfigError, Environment},
    exit::{failure::report_local, result::Exit},
    mcp_servers::usable_name,
    output::{self, shell_word::shell_word},
};
use serde_json::json;
use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};
use text::{Answers, Draft, Place};

/// Why no file was written.
#[derive(Debug, thiserror::Error)]
enum InitError {
    #[error(
        "{file} is there already, and is not overwritten: name another file, or look at this one with `longhaul check {file}`"
    )]
    Exists { file: String },
    #[error("there is no folder {folder}: make it first, or name another file")]
    NoFolder { folder: String },
    #[error("standard input is no terminal, so nothing was asked and nothing was written: use --yes")]
    NobodyToAsk,
    #[error("nothing was written")]
    Declined,
    #[error("nothing was written")]
    Interrupted,
    #[error("the questions cannot be shown: {why}; nothing was written")]
    NotShown { why: String },
    #[error("what was answered makes no valid file, and nothing was written: {0}")]
    Invalid(ConfigError),
    #[error("cannot write {file}: {error}")]
    Unwritable { file: String, error: io::Error },
    #[error("cannot find this program's executable: {0}")]
    Program(io::Error),
}

/// Asks, writes the file, and says what to do next.
pub(crate) async fn run(init: &args::Init) -> ExitCode {
    match write(init).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(InitError::Interrupted) => Exit::Interrupted.into(),
        Err(error) => {
            let is_usage = !matches!(error, InitError::Declined | InitError::Unwritable { .. });
            report_local(&error, is_usage, init.json)
        }
    }
}

async fn write(init: &args::Init) -> Result<(), InitError> {
    let file = &init.file;
    // Before anything is asked.
    check_place(file)?;
    let environment = Environment::of_this_process();
    let name = file.file_stem().map(|stem| usable_name(&stem.to_string_lossy()));
    let name = name.unwrap_or_else(|| "jobs".to_owned());
    let cwd = folder_of_command(file);
    let drafted = |answers: &Answers| check_draft(answers, file, cwd.as_deref(), &environment);
    let (answers, draft, config) = match init.yes {
        true => {
            let answers = Answers {
                name,
                words: None,
                place: Place::Http,
            };
            let (draft, config) = drafted(&answers).map_err(InitError::Invalid)?;
            (answers, draft, config)
        }
        false if !io::stdin().is_terminal() || !io::stderr().is_terminal() => return Err(InitError::NobodyToAsk),
        false => questions::ask(name, drafted, |draft, config| warn(file, draft, config)).await?,
    };
    create(file, &draft.text).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => InitError::Unwritable {
            file: file.display().to_string(),
            error,
        },
    })?;
    if config.server.data_dir.exists() {
        output::note(&format!(
            "warning: there are data of a server called `{}` already: {}; another name keeps them apart",
            answers.name,
            config.server.data_dir.display()
        ));
    }
    report(init, &answers, &draft)
}

/// Whether the file can be written, as far as that is known.
fn check_place(file: &Path) -> Result<(), InitError> {
    if fs::symlink_metadata(file).is_ok() {
        return Err(exists(file));
    }
    match folder(file) {
        folder if folder.is_dir() => Ok(()),
        folder => Err(InitError::NoFolder {
            folder: folder.display().to_string(),
        }),
    }
}

fn exists(file: &Path) -> InitError {
    InitError::Exists {
        file: shell_word(&file.display().to_string()),
    }
}

fn folder(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Where the command was typed, if the file is elsewhere.
fn folder_of_command(file: &Path) -> Option<String> {
    let here = env::current_dir().ok()?;
    let is_beside = fs::canonicalize(folder(file)).is_ok_and(|folder| folder == here);
    here.to_str().filter(|_| !is_beside).map(str::to_owned)
}

/// What the answers make, if it can be served.
fn check_draft(
    answers: &Answers,
    file: &Path,
    cwd: Option<&str>,
    environment: &Environment,
) -> Result<(Draft, Config), ConfigError> {
    let draft = answers.draft(file, cwd, environment);
    let config = config::load_generated(file, draft.text.clone(), environment)?;
    Ok((draft, config))
}

/// Says what is wrong with a command that can be written so, before the file is.
fn warn(file: &Path, draft: &Draft, config: &Config) {
    check::warn(&file.display().to_string(), &config.warnings);
    if let Some(name) = draft.literal.first() {
        output::note(&format!(
            "{{{name}}} is part of a script, so it stays as it is: a script gets values as arguments, such as `sh -c 'echo \"$1\"' sh {{{name}}}`"
        ));
    }
    if let Some(misnamed) = &draft.misnamed {
        output::note(&format!(
            "{misnamed} stays as it is: the name of a placeholder begins with a letter or _, and has only A-Z a-z 0-9 _ -"
        ));
    }
}

/// Writes a file that is not there.
fn create(file: &Path, text: &str) -> io::Result<()> {
    let mut created = OpenOptions::new().write(true).create_new(true).open(file)?;
    let written = created.write_all(text.as_bytes()).and_then(|()| created.sync_all());
    // A part of it would be in the way of the next try.
    written.inspect_err(|_| drop(fs::remove_file(file)))
}

fn report(init: &args::Init, answers: &Answers, draft: &Draft) -> Result<(), InitError> {
    let file = shell_word(&init.file.display().to_string());
    let absolute = std::path::absolute(&init.file).unwrap_or_else(|_| init.file.clone());
    let program: PathBuf = env::current_exe().map_err(InitError::Program)?;
    let arguments: String = draft.arguments.iter().map(|argument| format!(" {argument}")).collect();
    let serve = match answers.place {
        Place::Http => format!("longhaul serve {file}"),
        Place::Hosts => format!("longhaul stdio {}", shell_word(&absolute.display().to_string())),
    };
    let next = [
        format!("longhaul check {file}"),
        serve,
        format!("longhaul call {file} {}{arguments}", draft.tool),
    ];
    if init.json {
        output::json_line(&json!({
            "file": init.file.display().to_string(),
            "server": answers.name,
            "tool": draft.tool,
            "next": next,
        }));
        return Ok(());
    }
    let [check, serve, call] = next;
    let mut lines = vec![format!("{file} is written. Next:"), format!("  {check}")];
    match answers.place {
        Place::Http => lines.push(format!("  {serve}")),
        Place::Hosts => {
            let entry =
                json!({"command": program.display().to_string(), "args": ["stdio", absolute.display().to_string()]});
            let server = serde_json::Map::from_iter([(answers.name.clone(), entry)]);
            lines.push(format!(
                "  in the file of your MCP host: {}",
                json!({"mcpServers": server})
            ));
        }
    }
    let with = match answers.place {
        Place::Http => "   # in a second terminal",
        Place::Hosts => "",
    };
    lines.push(format!("  {call}{with}"));
    output::text(&lines.join("\n"));
    Ok(())
}
