//! `longhaul admin top`: the live tasks on a screen that follows them.

use super::{
    api::{Answer, Api},
    show,
};
use crate::{
    exit::{failure::Failure, result::Exit},
    output::{self, columns::fit},
};
use anstyle::{AnsiColor, Style};
use longhaul_admin_api::{ProblemsView, StatsView, TaskPage, ToolView};
use longhaul_client::SystemClock;
use longhaul_core::Clock as _;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

/// The column of the state in a line of a task.
const STATE_COLUMN: usize = 2;
const ROUND: Duration = Duration::from_secs(1);
/// Tasks that are shown if the terminal does not say how many lines it has.
const LINES: usize = 24;

/// The states in the order in which their tasks are shown: a long queue must not hide what runs.
const STATES: [&str; 4] = ["running", "blocked", "suspended", "queued"];
/// Tasks that are shown at most, of each state.
const MOST: usize = 200;

/// Runs until `q` is pressed or it is interrupted. Without a terminal it prints the present and ends.
pub(super) async fn run(api: &Api, as_json: bool) -> Result<Exit, Failure> {
    let mut keys = Keys::of_terminal();
    let mut scrolled = ScrollPosition::default();
    let mut was_there = false;
    loop {
        match Present::read(api).await {
            Ok(present) if as_json => output::json_line(&present.as_json()),
            Ok(present) => present.draw(&mut scrolled),
            // It may be restarted.
            Err(failure) if was_there && keys.is_some() && failure.exit() == Exit::NoServer => {
                on_screen(
                    &wrapped(&format!("{failure}; trying again"), show::width()),
                    show::width(),
                );
            }
            Err(failure) => return Err(failure),
        }
        was_there = true;
        if !io::stdout().is_terminal() || output::has_failed() {
            return Ok(Exit::Answered);
        }
        let Some(keys) = &mut keys else {
            SystemClock.sleep(ROUND).await;
            continue;
        };
        for key in keys.pressed().await {
            match key {
                Key::Quit => {
                    output::text("");
                    return Ok(Exit::Answered);
                }
                Key::Scroll(how) => scrolled.by(how),
            }
        }
    }
}

/// The keys of the terminal, which come one by one and are not shown until this is dropped.
struct Keys {
    before: Termios,
    /// The beginning of a key whose other bytes were not read yet.
    begun: Vec<u8>,
}

impl Keys {
    /// `None` if there is no terminal that can be set so.
    fn of_terminal() -> Option<Self> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok()?;
        let mut single = before.clone();
        // Ctrl-C still interrupts.
        single.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // A read returns after a second, also if no key was pressed.
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = 10;
        tcsetattr(io::stdin(), OptionalActions::Now, &single).ok()?;
        let begun = Vec::new();
        Some(Self { before, begun })
    }

    /// Waits for a second, or until a key is pressed. Returns all that were pressed since, in order.
    #[expect(
        clippy::disallowed_methods,
        reason = "a terminal cannot be read without blocking; it takes a second at most"
    )]
    async fn pressed(&mut self) -> Vec<Key> {
        let read = tokio::task::spawn_blocking(|| {
            let mut bytes = [0; 1024];
            let read = rustix::io::read(io::stdin(), &mut bytes).unwrap_or_default();
            bytes[..read].to_vec()
        });
        let read = tokio::select! {
            read = read => read.unwrap_or_default(),
            _ = tokio::signal::ctrl_c() => return vec![Key::Quit],
        };
        let mut bytes = std::mem::take(&mut self.begun);
        // A terminal sends the bytes of a key together: what has no end after a second is none.
        if read.is_empty() {
            return Vec::new();
        }
        bytes.extend(read);
        let (keys, begun) = Key::all(&bytes);
        self.begun = begun.to_vec();
        keys
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The first byte of keys without a letter.
const ESCAPE: u8 = 0x1b;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Quit,
    Scroll(Scroll),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scroll {
    Lines(isize),
    Pages(isize),
}

impl Key {
    /// The keys that a terminal has sent as these bytes, and the bytes at their end that are the beginning of one.
    fn all(mut bytes: &[u8]) -> (Vec<Self>, &[u8]) {
        let mut keys = Vec::new();
        loop {
            let length = match bytes {
                [] | [ESCAPE] | [ESCAPE, b'O'] => return (keys, bytes),
                [ESCAPE, b'O', ..] => 3,
                [ESCAPE, b'[', sequence @ ..] => match sequence.iter().position(|byte| (b'@'..=b'~').contains(byte)) {
                    Some(last) => last + 3,
                    None => return (keys, bytes),
                },
                _ => 1,
            };
            let (key, rest) = bytes.split_at(length);
            keys.extend(Self::of(key));
            bytes = rest;
        }
    }

    /// The key that is sent as exactly these bytes.
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            b"\x1b[A" | b"\x1bOA" => Some(Self::Scroll(Scroll::Lines(-1))),
            b"\x1b[B" | b"\x1bOB" => Some(Self::Scroll(Scroll::Lines(1))),
            b"\x1b[5~" => Some(Self::Scroll(Scroll::Pages(-1))),
            b"\x1b[6~" => Some(Self::Scroll(Scroll::Pages(1))),
            b"q" | b"Q" => Some(Self::Quit),
            _ => None,
        }
    }
}

/// How far the tools and tasks are scrolled.
#[derive(Debug, Default)]
struct ScrollPosition {
    /// Lines that are above the screen.
    above: usize,
    /// Lines of a page, when it was drawn last.
    page: usize,
    /// Lines that are above the screen when its end is shown, when it was drawn last.
    most: usize,
}

impl ScrollPosition {
    fn by(&mut self, how: Scroll) {
        let lines = match how {
            Scroll::Lines(lines) => lines,
            Scroll::Pages(pages) => pages.saturating_mul(self.page.cast_signed()),
        };
        // Several keys may come before it is drawn again.
        self.above = self.above.saturating_add_signed(lines).min(self.most);
    }

    /// The lines of a screen of this height: `top` stays, `body` is scrolled, if there is more than fits.
    fn screen(&mut self, mut top: Vec<String>, body: Vec<String>, height: usize) -> Vec<String> {
        top.truncate(height);
        let room = height - top.len();
        if body.len() <= room {
            (self.above, self.most) = (0, 0);
            top.extend(body);
            return top;
        }
        // The last line says what is shown.
        self.page = room.saturating_sub(1);
        self.most = body.len() - self.page;
        self.above = self.above.min(self.most);
        let (first, last) = (self.above + 1, self.above + self.page);
        let of = body.len();
        top.extend(body.into_iter().skip(self.above).take(self.page));
        top.push(format!(
            "lines {first}-{last} of {of}: \u{2191} \u{2193} PgUp PgDn, q ends"
        ));
        top.truncate(height);
        top
    }
}

/// How many problems are shown.
const PROBLEMS: usize = 3;
/// Of how many lines one of them may have.
const PROBLEM_LINES: usize = 4;

/// What a server does now.
struct Present {
    problems: Answer<ProblemsView>,
    stats: Answer<StatsView>,
    tools: Answer<Vec<ToolView>>,
    /// The pages of live tasks, one for each state.
    live: Vec<Answer<TaskPage>>,
}

impl Present {
    async fn read(api: &Api) -> Result<Self, Failure> {
        let problems = api.get("/api/problems").await?;
        let stats = api.get("/api/stats").await?;
        let tools = api.get("/api/tools").await?;
        let mut live = Vec::new();
        for state in STATES {
            let path = format!("/api/tasks?state={state}&order=oldest&limit={MOST}");
            live.push(api.get(&path).await?);
        }
        Ok(Self {
            problems,
            stats,
            tools,
            live,
        })
    }

    fn as_json(&self) -> Value {
        let pages = self.live.iter().map(|page| &page.json["tasks"]);
        json!({
            "problems": self.problems.json["problems"],
            "stats": *self.stats.json,
            "tools": *self.tools.json,
            "tasks": pages.filter_map(Value::as_array).flatten().collect::<Vec<_>>(),
        })
    }

    fn draw(&self, scrolled: &mut ScrollPosition) {
        let is_terminal = io::stdout().is_terminal();
        let busy = |tool: &&ToolView| tool.queued + tool.running + tool.suspended + tool.blocked > 0;
        let tools = self.tools.read.iter().filter(busy);
        let live = self.live.iter().flat_map(|page| &page.read.tasks);
        let width = show::width();
        let mut lines = wrapped(&show::stats(&self.stats.read), width);
        let problems = &self.problems.read.problems;
        let shown = problems.iter().take(PROBLEMS);
        lines.extend(shown.flat_map(|problem| problem_lines(&problem.what, width)));
        if problems.len() > PROBLEMS {
            let more = problems.len() - PROBLEMS;
            lines.push(format!("! and {more} more: `longhaul admin doctor`"));
        }
        lines.push(String::new());
        let mut body: Vec<String> = show::tools_of_screen(tools, width).lines().map(str::to_owned).collect();
        body.push(String::new());
        body.extend(show::tasks_of_screen(live, width).lines().map(str::to_owned));
        if is_terminal {
            on_screen(&scrolled.screen(lines, body, height()), width);
        } else {
            lines.extend(body);
            output::text(&lines.join("\n"));
        }
    }
}

/// Shows lines from the top left corner: each to its end, then nothing below.
fn on_screen(lines: &[String], width: usize) {
    let colors = Colors::of_environment();
    let mut out = io::stdout().lock();
    let shown: String = lines
        .iter()
        .map(|line| {
            // A line that is too long would push the first one out of the screen.
            format!("{}\x1b[K\r\n", colors.of(&fit(&output::plain(line, ""), width)))
        })
        .collect();
    let _ = write!(out, "\x1b[H{}\x1b[J", shown.trim_end_matches("\r\n"));
    let _ = out.flush();
}

/// Whether lines have colors.
struct Colors {
    are_on: bool,
}

impl Colors {
    /// None with `NO_COLOR`.
    fn of_environment() -> Self {
        Self {
            are_on: std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()),
        }
    }

    /// The line with its colors: a problem in red, the state of a task in that of the state, a header in bold.
    fn of(&self, line: &str) -> String {
        let (style, word) = match line.split_whitespace().nth(STATE_COLUMN) {
            _ if !self.are_on => return line.to_owned(),
            _ if line.starts_with("! ") => (AnsiColor::Red.on_default(), line),
            _ if ["TASK ", "TOOL "].iter().any(|header| line.starts_with(header)) => (Style::new().bold(), line),
            Some(state) => match state.trim_end_matches(',') {
                state @ "running" => (AnsiColor::Blue.on_default(), state),
                state @ ("suspended" | "queued") => (AnsiColor::Yellow.on_default(), state),
                state @ "blocked" => (AnsiColor::Red.on_default(), state),
                _ => return line.to_owned(),
            },
            None => return line.to_owned(),
        };
        line.replacen(word, &format!("{style}{word}{style:#}"), 1)
    }
}

/// What is wrong, in a few lines.
fn problem_lines(what: &str, width: usize) -> Vec<String> {
    let mut lines = wrapped(what, width.saturating_sub(2));
    if lines.len() > PROBLEM_LINES {
        lines.truncate(PROBLEM_LINES);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    let marked = |(index, line): (usize, String)| format!("{}{line}", if index == 0 { "! " } else { "  " });
    lines.into_iter().enumerate().map(marked).collect()
}

/// A text in lines of at most `width` characters, unless a word is longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn height() -> usize {
    let lines = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_row.into());
    if lines == 0 { LINES } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_not_longer_than_the_screen() {
        assert_eq!(wrapped("ab cd ef longer", 5), ["ab cd", "ef", "longer"]);
        assert_eq!(wrapped("ab cd", usize::MAX), ["ab cd"]);
    }

    #[test]
    fn a_state_has_a_color_and_a_word_like_it_has_none() {
        let colors = Colors { are_on: true };
        let line = "8jp8bw  build  running  2s  user  running tests";
        let expected = "8jp8bw  build  \u{1b}[34mrunning\u{1b}[0m  2s  user  running tests";
        assert_eq!(colors.of(line), expected);
        assert_eq!(colors.of("build  1  2s  1"), "build  1  2s  1", "a line of a tool");
        assert_eq!(colors.of("! it is full"), "\u{1b}[31m! it is full\u{1b}[0m");
        assert_eq!(Colors { are_on: false }.of(line), line);
    }

    #[test]
    fn problems_can_be_read_on_a_narrow_screen() {
        assert_eq!(problem_lines("ab cd ef", 7), ["! ab cd", "  ef"]);
        // The rest is in `doctor`.
        assert_eq!(problem_lines("ab cd ef gh ij", 4), ["! ab", "  cd", "  ef", "  gh …"]);
        assert_eq!(problem_lines("ab cd ef", usize::MAX), ["! ab cd ef"]);
    }

    #[test]
    fn all_keys_of_a_read_are_found_and_the_beginning_of_one() {
        let (up, page) = (Key::Scroll(Scroll::Lines(-1)), Key::Scroll(Scroll::Pages(1)));
        for (bytes, keys, begun) in [
            (&b""[..], vec![], &b""[..]),
            (b"\x1b[6~\x1b[6~", vec![page, page], b""),
            (b"\x1bOA\x1b[6~q", vec![up, page, Key::Quit], b""),
            (b"\x1b[6~\x1b[6", vec![page], b"\x1b[6"),
            (b"\x1b[A\x1bO", vec![up], b"\x1bO"),
            (b"x\x1b", vec![], b"\x1b"),
            // Others are passed over: Shift-PgDn, F5, a letter with Alt.
            (b"\x1b[6;2~\x1b[15~\x1bxQ", vec![Key::Quit], b""),
        ] {
            assert_eq!(Key::all(bytes), (keys, begun), "{bytes:?}");
        }
    }

    #[test]
    fn keys_scroll_as_far_as_there_is_something_to_show() {
        let lines = |range: std::ops::RangeInclusive<usize>| range.map(|n| n.to_string()).collect::<Vec<_>>();
        let mut scrolled = ScrollPosition::default();
        let mut press = |bytes: &[u8]| {
            let (keys, begun) = Key::all(bytes);
            assert!(begun.is_empty());
            for key in keys {
                let Key::Scroll(how) = key else {
                    panic!("{key:?} scrolls nothing");
                };
                scrolled.by(how);
            }
            scrolled.screen(vec!["top".to_owned()], lines(1..=10), 5)
        };
        let shown = |first: usize| {
            let last = first + 2;
            let mut shown = vec!["top".to_owned()];
            shown.extend(lines(first..=last));
            shown.push(format!(
                "lines {first}-{last} of 10: \u{2191} \u{2193} PgUp PgDn, q ends"
            ));
            shown
        };
        assert_eq!(press(b""), shown(1));
        assert_eq!(press(b"\x1b[A"), shown(1), "there is nothing above");
        assert_eq!(press(b"\x1b[B"), shown(2));
        assert_eq!(press(b"\x1b[6~"), shown(5));
        assert_eq!(press(b"\x1b[6~"), shown(8));
        assert_eq!(press(b"\x1b[6~"), shown(8), "there is nothing below");
        assert_eq!(press(b"\x1b[5~"), shown(5));
        assert_eq!(press(b"\x1bOA"), shown(4));
        assert_eq!(press(b"\x1b[A\x1b[A\x1b[A"), shown(1), "each of several counts");
        let ends = b"\x1b[6~\x1b[6~\x1b[6~\x1b[6~\x1b[5~";
        assert_eq!(press(ends), shown(5), "there is nothing below from which to go back");
        let mut scrolled = ScrollPosition {
            above: 3,
            page: 3,
            most: 7,
        };
        // All of it fits.
        assert_eq!(scrolled.screen(Vec::new(), lines(1..=3), 3), lines(1..=3));
        assert!(scrolled.screen(lines(1..=9), lines(1..=9), 4).len() == 4);
    }
}
