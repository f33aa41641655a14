//! `longhaul completions` and `longhaul man`.

use crate::{
    args::{self, Cli},
    call::completion,
    exit::result::Exit,
    output,
};
use clap::{Command, CommandFactory};
use std::{fs, io, process::ExitCode};

/// Prints the script that completes the command line in a shell.
pub(crate) fn completions(args: &args::Completions) -> ExitCode {
    match completion::script(args.shell) {
        Ok(script) => {
            output::bytes(&script);
            exit_status()
        }
        Err(error) => failed(&error, "the script"),
    }
}

/// Prints the manual page of the command, or writes those of all commands into a folder.
pub(crate) fn man(args: &args::Man) -> ExitCode {
    let Some(folder) = &args.dir else {
        let mut page = Vec::new();
        return match clap_mangen::Man::new(documented()).render(&mut page) {
            Ok(()) => {
                output::bytes(&page);
                exit_status()
            }
            Err(error) => failed(&error, "the manual page"),
        };
    };
    match fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(documented(), folder)) {
        Ok(()) => Exit::Answered.into(),
        Err(error) => failed(&error, &folder.display().to_string()),
    }
}

/// The command whose manual pages are written: they are of a version, and not of a build.
fn documented() -> Command {
    Cli::command().version(env!("CARGO_PKG_VERSION"))
}

fn exit_status() -> ExitCode {
    match output::has_failed() {
        true => Exit::NotWritten.into(),
        false => Exit::Answered.into(),
    }
}

fn failed(error: &io::Error, what: &str) -> ExitCode {
    output::note(&format!("longhaul: {what} cannot be written: {error}"));
    Exit::NotWritten.into()
}
