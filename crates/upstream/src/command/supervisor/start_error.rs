//! Why a command could not be started. The system says only that something was not found, and names neither its folder nor its interpreter.

use super::super::record::Spec;
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// As much of a first line as the system looks at.
const FIRST_LINE: u64 = 256;

/// The error, with what is missing.
pub(super) fn explain(spec: &Spec, error: &io::Error) -> String {
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
        ErrorKind::NotFound => missing_interpreter(&program).unwrap_or_else(|| error.to_string()),
        ErrorKind::PermissionDenied => format!("{error}: make {} executable (chmod +x)", program.display()),
        // ENOEXEC
        _ if error.raw_os_error() == Some(8) => format!(
            "{error}: {} is no program of this machine, and does not begin with a line such as `#!/bin/sh`",
            program.display()
        ),
        _ => error.to_string(),
    }
}

/// The program's file, as the system looks for it.
fn find(spec: &Spec, program: &str) -> Option<PathBuf> {
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

/// A script's interpreter, or a program's loader, is missing.
fn missing_interpreter(program: &Path) -> Option<String> {
    let mut first = Vec::new();
    File::open(program)
        .ok()?
        .take(FIRST_LINE)
        .read_to_end(&mut first)
        .ok()?;
    let Some(line) = first.strip_prefix(b"#!") else {
        return Some(format!(
            "{} is there, but what loads it is not: it was built for another system",
            program.display()
        ));
    };
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let interpreter = line.split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    if Path::new(OsStr::from_bytes(interpreter)).exists() {
        return None;
    }
    let shown = String::from_utf8_lossy(interpreter);
    Some(match shown.strip_suffix('\r') {
        Some(name) => format!(
            "its interpreter `{name}` is followed by a carriage return: save {} with the line ends of Unix (LF)",
            program.display()
        ),
        None => format!(
            "its interpreter {shown} does not exist; {} names it in its first line",
            program.display()
        ),
    })
}
