//! From an ended command to what the caller sees of it: a `CallToolResult`.

pub(in crate::command) mod artifacts;
mod tool_result;
pub(crate) mod unwritten;

use super::{
    attempt_dir::{
        AttemptDir, BOTH, STDERR, STDOUT,
        record::{CommandEnd, EVENT_TAIL, ExitRecord, QUOTED, Stopped},
        signal,
    },
    definition::{CommandTool, OutputKind},
    progress::{OutputReport, read_report},
    utf8::orphans,
};
use artifacts::ShownArtifacts;
use longhaul_core::{
    BYTE_ORDER_MARK, Json, MAX_RESULT_DEPTH, Millis, Outcome, StopReason, TaskId, format_duration, nests_deeper,
    skip_partial, terminal_text, truncate,
};
use longhaul_json_schema::Violation;
use longhaul_private_dir::read_file;
use longhaul_runtime::AttemptExit;
use serde_json::{Value, value::RawValue};
use std::io;
use tool_result::{ContentBlock, Incomplete, Meta, ToolResult};

/// Violations of the output schema that are listed.
const LISTED: usize = 5;
/// Levels of arrays and objects in `structuredContent`, which is one level below the result.
const MAX_JSON_DEPTH: usize = MAX_RESULT_DEPTH - 1;
/// And UTF-16.
const UTF_16_MARKS: [&[u8]; 2] = [b"\xFF\xFE", b"\xFE\xFF"];
/// Lines before or after JSON that are looked for.
const FOREIGN_LINES: usize = 20;
/// Of a line that is named as not being JSON, in bytes.
const NAMED_LINE: usize = 200;
/// Of the output of a command that was cancelled: its status message has not much room.
const QUOTED_IN_STATUS: usize = 600;

/// Whether the result of a command names its log, if its caller can read that.
pub(super) fn names_log(tool: &CommandTool, exit: &ExitRecord) -> bool {
    // What is not UTF-8 becomes up to three times as long.
    let may_be_cut = exit.stdout_bytes.saturating_mul(3) > tool.definition().max_output;
    let is_incomplete = may_be_cut || exit.write_error.is_some();
    keeps_log(tool) && (is_incomplete || exit.stopped.is_some() || !exit.succeeded())
}

/// Whether there is a log.
pub(super) fn keeps_log(tool: &CommandTool) -> bool {
    tool.definition().max_log > 0
}

/// Whether lines of the standard output are for people: JSON and raw output are not, unless a pattern finds progress in it.
pub(super) fn shows_standard_output(tool: &CommandTool) -> bool {
    tool.definition().output == OutputKind::Text || tool.progress().is_some()
}

/// An ended command, and what is known of it.
pub(super) struct EndedCommand<'a> {
    pub(super) tool: &'a CommandTool,
    pub(super) dir: &'a AttemptDir,
    pub(super) exit: &'a ExitRecord,
    /// The task, if its owner can read its log.
    pub(super) log_of: Option<&'a TaskId>,
    /// The files that it left, if it may leave any.
    pub(super) artifacts: Option<&'a ShownArtifacts>,
}

/// What a command's end means to its task.
pub(super) enum CommandResult {
    /// It ended by itself, or was stopped at its deadline.
    Outcome(Outcome),
    /// It was stopped because its timeout passed.
    TimedOut(Outcome),
    /// It was stopped, and the status message says how it ended.
    Stopped(StopReason, String),
}

impl CommandResult {
    const UNREADABLE: &str = "the command ended, but its output cannot be read";

    /// The same of a command whose output cannot be read.
    pub(super) fn without_output(stopped: Option<Stopped>) -> Self {
        match stopped {
            None => Self::Outcome(Outcome::tool_error(Self::UNREADABLE)),
            Some(Stopped::Timeout) => Self::TimedOut(Outcome::tool_error(Self::UNREADABLE)),
            Some(Stopped::Cancel) => Self::Stopped(StopReason::Cancel, Self::UNREADABLE.to_owned()),
            Some(Stopped::Deadline) => Self::Stopped(StopReason::Deadline, Self::UNREADABLE.to_owned()),
        }
    }
}

impl EndedCommand<'_> {
    /// What the end means to a task whose deadline, if it has one, was this long after its creation.
    ///
    /// # Errors
    /// When the outputs cannot be read.
    pub(super) fn command_result(&self, deadline: Option<Millis>) -> io::Result<CommandResult> {
        Ok(match (self.exit.stopped, deadline) {
            (None, _) => CommandResult::Outcome(self.result()?),
            (Some(Stopped::Timeout), _) => CommandResult::TimedOut(self.past_timeout()?),
            (Some(Stopped::Deadline), Some(deadline)) => CommandResult::Outcome(self.past_deadline(deadline)?),
            (Some(Stopped::Deadline), None) => CommandResult::Stopped(StopReason::Deadline, self.cancelled()?),
            (Some(Stopped::Cancel), _) => CommandResult::Stopped(StopReason::Cancel, self.cancelled()?),
        })
    }

    /// The result of a command that was not stopped: an exit code that counts as success gives its standard output, anything else `isError` with
    /// the end of both outputs.
    ///
    /// `structuredContent` may be any JSON value; a front that serves a generation which wants an object there sees to that.
    ///
    /// # Errors
    /// When the outputs cannot be read.
    pub(super) fn result(&self) -> io::Result<Outcome> {
        if !self.exit.succeeded() {
            return self.failed(&self.headline());
        }
        let stdout = kept(self.dir, STDOUT)?;
        if stdout.is_empty() && self.exit.stdout_bytes > 0 {
            let why = self.exit.write_error.as_deref().unwrap_or("its file is gone");
            let text = format!("the command succeeded, but its output could not be kept: {why}");
            return self.outcome(ToolResult::of(&text, true), &[STDOUT], self.exit.stdout_bytes);
        }
        match self.tool.definition().output {
            OutputKind::Text => self.text(&stdout),
            OutputKind::Raw => self
                .raw(&stdout)
                .unwrap_or_else(|problem| self.unusable(&problem, &stdout)),
            OutputKind::Json => self
                .structured(&stdout)
                .unwrap_or_else(|problem| self.unusable(&problem, &stdout)),
        }
    }

    /// The command has done its work, but its output is not what was promised: the caller gets the end of it.
    fn unusable(&self, problem: &str, stdout: &[u8]) -> io::Result<Outcome> {
        let headline = format!("the command succeeded, but {problem}");
        if stdout.trim_ascii().is_empty() {
            // What it wrote instead may say why.
            let stderr = kept(self.dir, STDERR)?;
            let written = self.exit.stderr_bytes;
            let (quoted, dropped) = tail(from_line(&stderr, written), written, QUOTED);
            return self.failed_with(&headline, &quoted, dropped, &[STDERR]);
        }
        let written = self.exit.stdout_bytes;
        let (quoted, dropped) = tail(from_line(stdout, written), written, QUOTED);
        self.failed_with(&headline, &quoted, dropped, &[STDOUT])
    }

    /// The last status and progress.
    pub(super) fn report(&self) -> OutputReport {
        let end = |name| {
            let mut end = kept(self.dir, name).unwrap_or_default();
            let cut = end.len().saturating_sub(EVENT_TAIL);
            end.drain(..cut);
            let begin = if cut > 0 { skip_partial(&end) } else { 0 };
            String::from_utf8_lossy(&end[begin..]).into_owned()
        };
        let stdout = if shows_standard_output(self.tool) {
            end(STDOUT)
        } else {
            String::new()
        };
        let mut ends = [&*stdout, &*end(STDERR)];
        if self.exit.stderr_last {
            ends.reverse();
        }
        read_report(&ends, self.tool.progress(), true)
    }

    /// The result of a command that was stopped because its deadline, `deadline` after the task's creation, had passed.
    ///
    /// # Errors
    /// When the outputs cannot be read.
    pub(super) fn past_deadline(&self, deadline: Millis) -> io::Result<Outcome> {
        let deadline = format_duration(deadline);
        let headline = match &self.exit.ended {
            CommandEnd::NotStarted(_) => {
                format!(
                    "deadline of {deadline} passed while the call waited; {} was not started",
                    self.program()
                )
            }
            _ => format!("deadline of {deadline} passed; {}", self.headline()),
        };
        self.failed(&headline)
    }

    /// The result of a command that was stopped because the timeout of its attempt had passed.
    fn past_timeout(&self) -> io::Result<Outcome> {
        let timeout = self.tool.definition().timeout_ms.map(format_duration);
        let which = timeout.map_or_else(|| "the timeout".to_owned(), |timeout| format!("timeout of {timeout}"));
        self.failed(&format!("{which} passed; {}", self.headline()))
    }

    /// The status message of a cancelled command: how it ended, where its log is, and the end of its output.
    ///
    /// # Errors
    /// When the outputs cannot be read.
    pub(super) fn cancelled(&self) -> io::Result<String> {
        let signal = self.tool.definition().stop.signal.name();
        let killed = if self.exit.killed {
            format!(" It did not follow SIG{signal}.")
        } else {
            String::new()
        };
        let log = self.log_of.map(|task| format!(" Its log: {}", log_address(task)));
        let (both, _) = self.both(QUOTED_IN_STATUS)?;
        let files = self.artifacts.and_then(ShownArtifacts::sentence);
        let ended = format!(
            "Cancelled; {}.{killed}{}{}",
            self.headline(),
            files.unwrap_or_default(),
            log.unwrap_or_default()
        );
        Ok(match both.trim_end() {
            "" => ended,
            quoted => format!("{ended}\n\n{quoted}"),
        })
    }

    fn program(&self) -> &str {
        self.tool.definition().program()
    }

    fn headline(&self) -> String {
        let program = self.program();
        match &self.exit.ended {
            CommandEnd::Code(code) => match signal_within(*code) {
                Some(signal) => format!(
                    "{program} exited with code {code}, by which shells report signal {}",
                    self.described(signal)
                ),
                None if *code == 0 && !self.exit.succeeded() => {
                    format!("{program} exited with code 0, which does not count as success")
                }
                None => format!("{program} exited with code {code}"),
            },
            CommandEnd::Signal(signal) => format!("{program} was killed by signal {}", self.described(*signal)),
            CommandEnd::NotStarted(error) => format!("{program} could not be started: {error}"),
        }
    }

    /// With its name, and what most often sends it.
    fn described(&self, signal: i32) -> String {
        let name = match signal::name(signal) {
            name if name == signal.to_string() => name,
            name => format!("{signal} ({name})"),
        };
        match signal {
            libc::SIGKILL if self.exit.stopped.is_none() => format!("{name}, as when memory runs out"),
            _ => name,
        }
    }

    fn text(&self, stdout: &[u8]) -> io::Result<Outcome> {
        let max = usize::try_from(self.tool.definition().max_output).unwrap_or(usize::MAX);
        let (mut text, dropped) = tail(from_line(stdout, self.exit.stdout_bytes), self.exit.stdout_bytes, max);
        if dropped > 0 {
            text = format!(
                "[longhaul: the first {dropped} bytes were dropped{}]\n{text}",
                self.see_log()
            );
        }
        mark_left_open(&mut text, self.exit.stdout_left_open);
        if self.exit.code() != Some(0) {
            append_line(
                &mut text,
                &format!("[longhaul: {}, which counts as success]", self.headline()),
            );
        }
        self.outcome(ToolResult::of(&text, false), &[STDOUT], dropped)
    }

    /// The output as it is: text if it is some, else bytes.
    ///
    /// # Errors
    /// What is wrong with the output, for the caller to read.
    fn raw(&self, stdout: &[u8]) -> Result<io::Result<Outcome>, String> {
        let (written, max) = (self.exit.stdout_bytes, self.tool.definition().max_output);
        if written > max || stdout.len() as u64 != written {
            return Err(format!(
                "its output has {written} bytes, and raw output of more than {max} bytes is not kept whole{}",
                self.see_log()
            ));
        }
        let result = match std::str::from_utf8(stdout) {
            Ok(text) if !text.contains('\0') => ToolResult::of(text, false),
            _ => ToolResult {
                content: vec![ContentBlock::bytes(stdout)],
                ..ToolResult::of("", false)
            },
        };
        Ok(self.outcome(result, &[STDOUT], 0))
    }

    /// The headline, and the end of both outputs in order of arrival.
    fn failed(&self, headline: &str) -> io::Result<Outcome> {
        let (quoted, dropped) = self.both(2 * QUOTED)?;
        self.failed_with(headline, &quoted, dropped, &[STDOUT, STDERR])
    }

    /// The headline, and the end of the outputs that are `shown`.
    fn failed_with(&self, headline: &str, quoted: &str, dropped: u64, shown: &[&'static str]) -> io::Result<Outcome> {
        let mut quoted = quoted.to_owned();
        mark_left_open(&mut quoted, shown.iter().any(|name| self.is_left_open(name)));
        let mut text = headline.to_owned();
        if dropped > 0 {
            text.push_str(&format!(
                "\n\n[longhaul: {dropped} bytes of its output are not shown here{}]",
                self.see_log()
            ));
        } else if (self.exit.stopped.is_some() || self.exit.succeeded())
            && let Some(task) = self.log_of
        {
            text.push_str(&format!("\n\n[longhaul: its log is {}]", log_address(task)));
        }
        let quoted = quoted.trim_end();
        if !quoted.is_empty() {
            text.push_str(if dropped > 0 { "\n" } else { "\n\n" });
            text.push_str(quoted);
        }
        self.outcome(ToolResult::of(&text, true), shown, dropped)
    }

    /// At most `max` bytes from the end of both outputs, and how many bytes are not among them.
    fn both(&self, max: usize) -> io::Result<(String, u64)> {
        let mut both = kept(self.dir, BOTH)?;
        if both.is_empty() {
            // A supervisor of an earlier version did not keep them together.
            both = kept(self.dir, STDOUT)?;
            both.drain(..both.len().saturating_sub(QUOTED));
            both.extend(kept(self.dir, STDERR)?);
        }
        Ok(tail(&both, self.exit.stdout_bytes + self.exit.stderr_bytes, max))
    }

    fn see_log(&self) -> String {
        let Some(address) = self.log_of.map(log_address) else {
            return String::new();
        };
        let is_whole = self.exit.log_bytes <= self.tool.definition().max_log && self.exit.write_error.is_none();
        let has = match is_whole {
            true => "the log has them",
            false => "the log has the beginning and the end of all output",
        };
        format!("; {has}: {address}")
    }

    /// # Errors
    /// What is wrong with the output, for the caller to read.
    fn structured(&self, stdout: &[u8]) -> Result<io::Result<Outcome>, String> {
        let (written, max) = (self.exit.stdout_bytes, self.tool.definition().max_output);
        if written > max {
            return Err(format!(
                "its output has {written} bytes, and JSON of more than {max} bytes is not kept whole{}",
                self.see_log()
            ));
        }
        let stdout = stdout.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stdout);
        if UTF_16_MARKS.iter().any(|mark| stdout.starts_with(mark)) {
            return Err("its output is UTF-16; JSON is to be UTF-8".to_owned());
        }
        let text = std::str::from_utf8(stdout)
            .map_err(|error| format!("its output is not UTF-8 (after {} bytes)", error.valid_up_to()))?;
        let raw: &RawValue = serde_json::from_str(text.trim()).map_err(|error| not_json(text, &error))?;
        if nests_deeper(raw.get().as_bytes(), MAX_JSON_DEPTH) {
            return Err(format!(
                "its output is JSON nested deeper than {MAX_JSON_DEPTH} levels, the most that clients are sent"
            ));
        }
        // Legal JSON may hold lone surrogates and numbers beyond `f64`, which most clients cannot read.
        let value: Value = serde_json::from_str(raw.get())
            .map_err(|error| format!("its output is JSON with a value that most programs cannot hold: {error}"))?;
        if let Some(schema) = self.tool.output_schema() {
            let checked = schema
                .check(&value, raw.get().len(), describe)
                .map_err(|_| "its output takes too long to check against the tool's output schema".to_owned())?;
            checked.map_err(|why| format!("its output does not satisfy the tool's output schema: {why}"))?;
        }
        let result = ToolResult {
            structured_content: Some(raw),
            ..ToolResult::of(raw.get(), false)
        };
        Ok(self.outcome(result, &[STDOUT], 0))
    }

    fn is_left_open(&self, name: &str) -> bool {
        match name {
            STDOUT => self.exit.stdout_left_open,
            _ => self.exit.stderr_left_open,
        }
    }

    /// With what programs may want to know of it. `shown`: the outputs it shows, of which `dropped` bytes are not in it.
    fn outcome(&self, result: ToolResult<'_>, shown: &[&'static str], dropped: u64) -> io::Result<Outcome> {
        let left_open: Vec<_> = shown.iter().copied().filter(|name| self.is_left_open(name)).collect();
        let incomplete = (dropped > 0 || !left_open.is_empty()).then(|| Incomplete {
            left_open,
            dropped_bytes: dropped,
            log: self.log_of.map(log_uri),
        });
        let ended = AttemptExit::from(&self.exit.ended);
        let exit = match self.exit.stopped {
            None if self.exit.succeeded() && self.exit.code() == Some(0) => None,
            Some(Stopped::Timeout) => ended.to_json_after_timeout(),
            _ => ended.to_json(),
        };
        let meta = (exit.is_some() || incomplete.is_some()).then_some(Meta { exit, incomplete });
        let files = self.artifacts.into_iter().flat_map(|left| left.blocks());
        let content = result.content.into_iter().chain(files).collect();
        let result = ToolResult {
            meta,
            content,
            ..result
        };
        Ok(Outcome::Result {
            json: Json::trusted(serde_json::to_string(&result)?),
            is_error: result.is_error,
        })
    }
}

fn describe(violations: &mut dyn Iterator<Item = Violation<'_>>) -> String {
    let listed = violations
        .take(LISTED)
        .map(|violation| format!("at `{}`: {violation}", violation.instance_path()));
    let listed: Vec<_> = listed.collect();
    match listed.is_empty() {
        true => "it is too large to say where".to_owned(),
        false => listed.join("; "),
    }
}

fn log_uri(task: &TaskId) -> String {
    format!("longhaul://task/{}/log", task.as_str())
}

/// For programs and for people.
fn log_address(task: &TaskId) -> String {
    format!("{} (longhaul task {} --log)", log_uri(task), task.as_str())
}

/// Says at the end of an output that there may be more of it than was read.
fn mark_left_open(text: &mut String, left_open: bool) {
    if !left_open {
        return;
    }
    append_line(
        text,
        "[longhaul: a process that the command left running still has this output open; what it writes after this is not kept]",
    );
}

fn append_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}

/// The last `max` bytes of outputs of `written` bytes of which `kept` is the end, as a terminal would show them, and how many bytes are missing. What is cut off
/// at the front ends with a line, if there is one.
fn tail(kept: &[u8], written: u64, max: usize) -> (String, u64) {
    let text = terminal_text(kept);
    let mut cut = text.ceil_char_boundary(text.len().saturating_sub(max));
    if cut > 0 {
        cut += skip_partial(&text.as_bytes()[cut..]);
    }
    (
        text[cut..].to_owned(),
        written.saturating_sub(kept.len() as u64) + cut as u64,
    )
}

/// What is kept of an output of `written` bytes, from the first whole line or character.
fn from_line(kept: &[u8], written: u64) -> &[u8] {
    let is_cut = written > kept.len() as u64;
    match skip_partial(kept) {
        _ if !is_cut => kept,
        0 => &kept[orphans(kept)..],
        line => &kept[line..],
    }
}

/// Shells report a command that a signal has killed as 128 and its number.
fn signal_within(code: i32) -> Option<i32> {
    let signal = code - 128;
    // 129 and 130 are used for much else.
    (signal > libc::SIGINT && signal::name(signal) != signal.to_string()).then_some(signal)
}

/// Names what stands before or after the JSON, if that is what is wrong: most often a warning of a library.
fn not_json(text: &str, error: &serde_json::Error) -> String {
    let is_json = |text: &str| {
        let text = text.trim();
        text.starts_with(['{', '[']) && serde_json::from_str::<&RawValue>(text).is_ok()
    };
    let advice = "all that is not JSON belongs on standard error";
    let shown = |line: &str| terminal_text(truncate(line.trim(), NAMED_LINE).as_bytes()).into_owned();
    if text.trim().is_empty() {
        return "its output is empty, and JSON was promised".to_owned();
    }
    let begin = text.match_indices('\n').map(|(at, _)| at + 1);
    let begin = begin.filter(|at| text[*at..].trim_start().starts_with(['{', '[']));
    if let Some(at) = begin.take(FOREIGN_LINES).find(|at| is_json(&text[*at..]))
        && let Some(line) = text[..at].lines().find(|line| !line.trim().is_empty())
    {
        return format!(
            "its output is not JSON: before the JSON it wrote `{}`; {advice}",
            shown(line)
        );
    }
    let end = text.rmatch_indices('\n').map(|(at, _)| at).take(FOREIGN_LINES);
    if let Some(line) = { end }
        .filter(|at| text[..*at].trim_end().ends_with(['}', ']']) && is_json(&text[..*at]))
        .find_map(|at| text[at..].lines().find(|line| !line.trim().is_empty()))
    {
        return format!(
            "its output is not JSON: after the JSON it wrote `{}`; {advice}",
            shown(line)
        );
    }
    format!("its output is not JSON: {error}")
}

fn kept(dir: &AttemptDir, name: &str) -> io::Result<Vec<u8>> {
    match read_file(&dir.file(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}
