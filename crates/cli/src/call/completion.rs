//! Completion of the command line in a shell: the script asks this program, which knows the configured servers and the recorded tasks. No server is asked, and none is
//! started.

use crate::{
    args::Cli,
    call::{record, tasks},
    servers,
};
use clap::{Command, CommandFactory, ValueHint};
use clap_complete::{
    CompleteEnv, Shell,
    engine::{ArgValueCompleter, CompletionCandidate, ValueCompleter},
    env::Shells,
};
use longhaul_client::{CallFilter, CallState, RecordedCall};
use longhaul_ledger::ClientJournal;
use std::{env, ffi::OsStr, io};

/// Set by the script when it asks: to the name of the shell.
const VARIABLE: &str = "LONGHAUL_COMPLETE";
/// As many tasks are suggested, the latest ones.
const MOST_TASKS: usize = 100;

/// Answers the shell and ends, if that is what this process was started for.
pub(crate) fn complete_if_asked() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The script for a shell.
pub(crate) fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let writer = shells.completer(&name);
    let writer = writer.ok_or_else(|| io::Error::other(format!("there is no completion for {name}")))?;
    let mut script = Vec::new();
    writer.write_registration(VARIABLE, "longhaul", "longhaul", "longhaul", &mut script)?;
    Ok(script)
}

/// The commands that operate a server, which is named by its file.
const OPERATING: [&str; 3] = ["admin", "doctor", "nodes"];

/// The command line, with what its words may be.
fn command() -> Command {
    let mut command = Cli::command();
    for name in OPERATING {
        command = command.mut_subcommand(name, with_files);
    }
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for name in names {
        let which = match name.as_str() {
            "task" => Some(Which::All),
            "answer" => Some(Which::Asking),
            "cancel" | "watch" => Some(Which::Unfinished),
            _ => None,
        };
        // Not `mut_arg`, which would change the order of the words.
        command = command.mut_subcommand(name, |one| {
            one.mut_args(|argument| match argument.get_id().as_str() {
                "words" => argument.add(ArgValueCompleter::new(Words(which))),
                "server" => argument.add(ArgValueCompleter::new(Words(None))),
                _ => argument,
            })
        });
    }
    command
}

/// The command, and those in it, with files for the server that is operated.
fn with_files(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_id().as_str() {
        "target" => argument.value_hint(ValueHint::AnyPath),
        _ => argument,
    });
    command.mut_subcommands(with_files)
}

/// Which tasks a command takes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Which {
    All,
    Unfinished,
    Asking,
}

impl Which {
    fn has(self, call: &RecordedCall) -> bool {
        let is_unfinished = match call.state {
            CallState::Task => !call.status.is_some_and(longhaul_client::TaskStatus::is_final),
            CallState::InFlight | CallState::Interrupted => true,
            _ => false,
        };
        match self {
            Self::All => call.task.is_some() || is_unfinished,
            Self::Unfinished => is_unfinished,
            Self::Asking => is_unfinished && call.asks,
        }
    }
}

/// The words of a command: a server first, if it is said, and tasks.
struct Words(Option<Which>);

impl ValueCompleter for Words {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let current = current.to_string_lossy();
        let mut servers = servers::configured_names();
        // The script gives the whole command line behind `--`.
        let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
        let mut words = words.skip_while(|word| word != "--");
        if words.any(|word| word != current && servers.contains(&word)) {
            servers.clear();
        }
        let tasks = self.0.map(recorded).unwrap_or_default().into_iter().map(|call| {
            let id = match &call.task {
                Some(task) => task.task_id.clone(),
                None => tasks::call_name(call.id),
            };
            CompletionCandidate::new(id).help(Some(call.tool.into()))
        });
        let fits = |candidate: &CompletionCandidate| candidate.get_value().to_string_lossy().starts_with(&*current);
        let servers = servers.into_iter().map(CompletionCandidate::new);
        servers.chain(tasks).filter(fits).collect()
    }
}

/// The recorded tasks. What cannot be read has none: a shell has no place for an error.
fn recorded(which: Which) -> Vec<RecordedCall> {
    // Completing creates no journal.
    if !ClientJournal::default_path().is_ok_and(|path| path.exists()) {
        return Vec::new();
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let listed = runtime.block_on(async { record::open().await?.list(CallFilter::default()).await });
    let mut calls = listed.unwrap_or_default();
    calls.retain(|call| which.has(call));
    calls.truncate(MOST_TASKS);
    calls
}
