//! Why a command could not be started. The system says only that something was not found, and names neither its folder nor its interpreter.

use super::super::interpreter;
use crate::command::attempt_dir::record::LaunchSpec;
use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The error, with what is missing.
pub(super) fn explain(spec: &LaunchSpec, error: &io::Error) -> String {
    let folder = spec.cwd.display();
    match std::fs::metadata(&spec.cwd) {
        Err(why) if why.kind() == ErrorKind::NotFound => return format!("its folder {folder} does not exist"),
        Err(why) => return format!("its folder {folder} cannot be entered: {why}"),
        Ok(metadata) if !metadata.is_dir() => return format!("{folder}, its `cwd`, is no folder"),
        Ok(_) => {}
    }
    let Some(program) = spec.argv.first().and_then(|program| find(spec, program)) else {
        return error.to_string();
    };
    match error.kind() {
        ErrorKind::NotFound => interpreter::missing_interpreter(&program)
            .or_else(|| missing_loader(&program))
            .unwrap_or_else(|| error.to_string()),
        ErrorKind::PermissionDenied => format!("{error}: make {} executable (chmod +x)", program.display()),
        // ENOEXEC
        _ if error.raw_os_error() == Some(8) => format!(
            "{error}: {} is no program of this machine, and does not begin with a line such as `#!/bin/sh`",
            program.display()
        ),
        ErrorKind::ArgumentListTooLong => format!("{error}: {}", describe_longest(spec)),
        _ => error.to_string(),
    }
}

/// What is too long of a command line, and what to do about it.
fn describe_longest(spec: &LaunchSpec) -> String {
    let arguments = spec.argv.iter().enumerate().skip(1);
    let longest = arguments.max_by_key(|(_, argument)| argument.len());
    let (number, argument) = longest.map_or((0, ""), |(number, argument)| (number, argument));
    let of_arguments: usize = spec.argv.iter().map(|argument| argument.len() + 1).sum();
    let of_variables: usize = (spec.env.iter().map(|(name, value)| name.len() + value.len() + 2))
        .chain(spec.env_bytes.iter().map(|(name, value)| name.len() + value.len() + 2))
        .sum();
    format!(
        "argument {number} of its command has {} bytes, all have {of_arguments}, and its variables {of_variables}; Linux takes 128 KiB in one and mostly 2 MiB in all. \
         What is longer belongs in its `stdin`, or in a file that an argument names",
        argument.len()
    )
}

/// The program's file, as the system looks for it.
fn find(spec: &LaunchSpec, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(spec.cwd.join(program)).filter(|path| path.exists());
    }
    let text = spec.env.get("PATH").map(String::as_bytes);
    let folders = text
        .or(spec.env_bytes.get("PATH").map(Vec::as_slice))
        .unwrap_or_default();
    let folders = folders.split(|byte| *byte == b':').map(OsStr::from_bytes);
    let mut candidates = folders.map(|folder| spec.cwd.join(folder).join(program));
    candidates.find(|path| path.is_file())
}

/// What a program that is there lacks, if its interpreter is not missing: its loader.
fn missing_loader(program: &Path) -> Option<String> {
    let is_script = interpreter::is_script(program).ok()?;
    (!is_script).then(|| {
        format!(
            "{} is there, but what loads it is not: it was built for another system",
            program.display()
        )
    })
}
