//! From an ended command to what the caller sees of it: a `CallToolResult`.

use super::{
    attempt_dir::{AttemptDir, STDERR, STDOUT},
    definition::{CommandTool, OutputKind},
    record::{Ended, ExitRecord},
    utf8::{decoded_tail, orphans},
};
use longhaul_core::{Json, Outcome};
use longhaul_private_dir::read_file;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use std::io;

/// Standard output quoted in a failure that left nothing on standard error.
const QUOTED: usize = 8 * 1024;
/// Violations of the output schema that are listed.
const LISTED: usize = 5;

/// Whether the command did what it was asked to.
///
/// That its output could not be kept or was not what the tool promised is no matter of the command's, so it counts as done.
pub(super) fn succeeded(exit: &ExitRecord) -> bool {
    exit.ended == Ended::Code(0)
}

/// The result of a command that was not stopped: exit code 0 gives its standard output, anything else `isError` with the code and
/// the end of its standard error.
///
/// `structuredContent` may be any JSON value; a front that serves a generation which wants an object there sees to that.
///
/// # Errors
/// When the outputs cannot be read.
pub(super) fn result(tool: &CommandTool, dir: &AttemptDir, exit: &ExitRecord) -> io::Result<Outcome> {
    if !succeeded(exit) {
        return failure(tool, dir, exit);
    }
    let stdout = kept(dir, STDOUT)?;
    if stdout.is_empty() && exit.stdout_bytes > 0 {
        let why = exit.write_error.as_deref().unwrap_or("its file is gone");
        return Ok(Outcome::tool_error(&format!(
            "the command succeeded, but its output could not be kept: {why}"
        )));
    }
    match tool.definition().output {
        OutputKind::Text => text(tool, &stdout, exit),
        OutputKind::Json => match structured(tool, &stdout, exit) {
            Ok(done) => done,
            Err(problem) => {
                let mut text = format!("the command succeeded, but {problem}");
                mark_left_open(&mut text, exit.stdout_left_open);
                ToolResult::of(&text, true)
                    .with_meta(Meta::of(exit, &[STDOUT]))
                    .outcome()
            }
        },
    }
}

fn text(tool: &CommandTool, stdout: &[u8], exit: &ExitRecord) -> io::Result<Outcome> {
    let mut text = tail(stdout, exit.stdout_bytes, max_output(tool));
    mark_left_open(&mut text, exit.stdout_left_open);
    ToolResult::of(&text, false)
        .with_meta(Meta::of(exit, &[STDOUT]))
        .outcome()
}

/// Says at the end of an output that there may be more of it than was read.
fn mark_left_open(text: &mut String, left_open: bool) {
    if !left_open {
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(
        "[longhaul: a process that the command left running still has this output open; what it writes after this is not kept]\n",
    );
}

fn max_output(tool: &CommandTool) -> usize {
    usize::try_from(tool.definition().max_output).unwrap_or(usize::MAX)
}

/// The last `max` bytes of a stream of `written` bytes of which `kept` is the end, under a line that says what is missing.
fn tail(kept: &[u8], written: u64, max: usize) -> String {
    let mut before = written.saturating_sub(kept.len() as u64);
    let orphaned = if before > 0 { orphans(kept) } else { 0 };
    let (text, skipped) = decoded_tail(&kept[orphaned..], max);
    before += (orphaned + skipped) as u64;
    match before {
        0 => text,
        dropped => format!("[longhaul: the first {dropped} bytes were dropped]\n{text}"),
    }
}

/// # Errors
/// What is wrong with the output, for the caller to read.
fn structured(tool: &CommandTool, stdout: &[u8], exit: &ExitRecord) -> Result<io::Result<Outcome>, String> {
    let (written, max) = (exit.stdout_bytes, tool.definition().max_output);
    if written > max {
        return Err(format!(
            "its output has {written} bytes, and JSON of more than {max} bytes is not kept whole"
        ));
    }
    let text = std::str::from_utf8(stdout)
        .map_err(|error| format!("its output is not UTF-8 (after {} bytes)", error.valid_up_to()))?;
    let raw: &RawValue = serde_json::from_str(text.trim()).map_err(not_json)?;
    if let Some(schema) = tool.output_schema() {
        let value: Value = serde_json::from_str(raw.get()).map_err(not_json)?;
        let violations = schema.iter_errors(&value).take(LISTED);
        let listed = violations
            .map(|error| format!("at `{}`: {error}", error.instance_path()))
            .collect::<Vec<_>>();
        if !listed.is_empty() {
            return Err(format!(
                "its output does not satisfy the tool's output schema: {}",
                listed.join("; ")
            ));
        }
    }
    let result = ToolResult {
        structured_content: Some(raw),
        ..ToolResult::of(raw.get(), false)
    };
    Ok(result.with_meta(Meta::of(exit, &[STDOUT])).outcome())
}

fn not_json(error: serde_json::Error) -> String {
    format!("its output is not JSON: {error}")
}

/// A `CallToolResult` with one text block.
#[derive(Serialize)]
struct ToolResult<'a> {
    content: [TextBlock<'a>; 1],
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a RawValue>,
    #[serde(rename = "isError")]
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

/// What programs may want to know of a result.
#[derive(Serialize)]
struct Meta {
    #[serde(rename = "dev.longhaul/incomplete")]
    incomplete: Incomplete,
}

/// Why there may be more output than the result has.
#[derive(Serialize)]
struct Incomplete {
    /// Outputs that were still open when reading ended.
    #[serde(rename = "leftOpen")]
    left_open: Vec<&'static str>,
}

impl Meta {
    /// Of a result that shows these of the outputs.
    fn of(exit: &ExitRecord, shown: &[&'static str]) -> Option<Self> {
        let is_open = |name: &&str| match *name {
            STDOUT => exit.stdout_left_open,
            _ => exit.stderr_left_open,
        };
        let left_open: Vec<_> = shown.iter().copied().filter(is_open).collect();
        (!left_open.is_empty()).then_some(Self {
            incomplete: Incomplete { left_open },
        })
    }
}

impl<'a> ToolResult<'a> {
    fn of(text: &'a str, is_error: bool) -> Self {
        Self {
            content: [TextBlock { kind: "text", text }],
            structured_content: None,
            is_error,
            meta: None,
        }
    }

    fn with_meta(self, meta: Option<Meta>) -> Self {
        Self { meta, ..self }
    }

    fn outcome(&self) -> io::Result<Outcome> {
        Ok(Outcome::Result {
            json: Json::trusted(serde_json::to_string(self)?),
            is_error: self.is_error,
        })
    }
}

fn failure(tool: &CommandTool, dir: &AttemptDir, exit: &ExitRecord) -> io::Result<Outcome> {
    let program = tool.definition().command.first().map_or("", String::as_str);
    let headline = match &exit.ended {
        Ended::Code(code) => format!("{program} exited with code {code}"),
        Ended::Signal(signal) => format!("{program} was killed by signal {signal}"),
        Ended::NotStarted(error) => format!("{program} could not be started: {error}"),
    };
    let stderr = tail(&kept(dir, STDERR)?, exit.stderr_bytes, QUOTED);
    let (mut quoted, shown, left_open) = match stderr.trim().is_empty() {
        false => (stderr, STDERR, exit.stderr_left_open),
        // Many programs report what is wrong on standard output.
        true => {
            let stdout = tail(&kept(dir, STDOUT)?, exit.stdout_bytes, QUOTED);
            (stdout, STDOUT, exit.stdout_left_open)
        }
    };
    mark_left_open(&mut quoted, left_open);
    let quoted = quoted.trim_end();
    let text = if quoted.is_empty() {
        headline
    } else {
        format!("{headline}\n\n{quoted}")
    };
    ToolResult::of(&text, true)
        .with_meta(Meta::of(exit, &[shown]))
        .outcome()
}

fn kept(dir: &AttemptDir, name: &str) -> io::Result<Vec<u8>> {
    match read_file(&dir.file(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}
