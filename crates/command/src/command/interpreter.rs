//! The interpreter that a script names in its first line.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

/// As much of a first line as the system looks at.
const FIRST_LINE: u64 = 256;
const MARK: &[u8] = b"#!";

/// Why a script cannot be started whose interpreter is not there; `None` for all else.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let script = folder.path().join("build.sh");
/// std::fs::write(&script, "#!/bin/sh\r\necho done\r\n")?;
/// let why = longhaul_command::missing_interpreter(&script);
/// assert!(why.unwrap().starts_with("its interpreter `/bin/sh` is followed by a carriage return"));
/// # std::io::Result::Ok(())
/// ```
pub fn missing_interpreter(script: &Path) -> Option<String> {
    let first = first_line(script).ok()?;
    let line = first.strip_prefix(MARK)?.trim_ascii_start();
    let interpreter = line.split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    if interpreter.is_empty() || Path::new(OsStr::from_bytes(interpreter)).exists() {
        return None;
    }
    let shown = String::from_utf8_lossy(interpreter);
    Some(match shown.strip_suffix('\r') {
        Some(name) => format!(
            "its interpreter `{name}` is followed by a carriage return: save {} with the line ends of Unix (LF)",
            script.display()
        ),
        None => format!(
            "its interpreter {shown} does not exist; {} names it in its first line",
            script.display()
        ),
    })
}

/// Whether the program is a script that names its interpreter.
///
/// # Errors
/// It cannot be read.
pub(super) fn is_script(program: &Path) -> io::Result<bool> {
    Ok(first_line(program)?.starts_with(MARK))
}

/// The first line without its end, as far as the system looks at it.
fn first_line(program: &Path) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    File::open(program)?.take(FIRST_LINE).read_to_end(&mut first)?;
    if let Some(end) = first.iter().position(|byte| *byte == b'\n') {
        first.truncate(end);
    }
    Ok(first)
}
