//! `longhaul admin top`: the live tasks on a screen that follows them.

use super::{api::Api, show};
use crate::{failure::Failure, output, result::Exit};
use longhaul_client::SystemClock;
use longhaul_core::Clock as _;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

const ROUND: Duration = Duration::from_secs(1);
/// Tasks that are shown if the terminal does not say how many lines it has.
const LINES: usize = 24;

/// Runs until `q` is pressed or it is interrupted. Without a terminal it prints the present and ends.
pub(super) async fn run(api: &Api, as_json: bool) -> Result<Exit, Failure> {
    let keys = Keys::of_terminal();
    loop {
        let problems = api.get("/api/problems").await?;
        let stats = api.get("/api/stats").await?;
        let tools = api.get("/api/tools").await?;
        let live = api.get("/api/tasks?state=live&order=oldest&limit=200").await?;
        if as_json {
            output::json_line(&json!({
                "problems": problems["problems"],
                "stats": stats,
                "tools": tools,
                "tasks": live["tasks"],
            }));
        } else {
            draw(&problems, &stats, &tools, &live);
        }
        if !io::stdout().is_terminal() || output::has_failed() {
            return Ok(Exit::Answered);
        }
        match &keys {
            None => SystemClock.sleep(ROUND).await,
            Some(keys) if keys.quit().await => {
                output::text("");
                return Ok(Exit::Answered);
            }
            Some(_) => {}
        }
    }
}

/// The keys of the terminal, which come one by one and are not shown until this is dropped.
struct Keys {
    before: Termios,
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
        Some(Self { before })
    }

    /// Waits for a second; returns earlier if a key is pressed, and `true` if the user wants to end.
    #[expect(
        clippy::disallowed_methods,
        reason = "a terminal cannot be read without blocking; it takes a second at most"
    )]
    async fn quit(&self) -> bool {
        let read = tokio::task::spawn_blocking(|| {
            let mut keys = [0; 16];
            let read = rustix::io::read(io::stdin(), &mut keys).unwrap_or_default();
            keys[..read].iter().any(|key| matches!(key, b'q' | b'Q'))
        });
        tokio::select! {
            quits = read => quits.unwrap_or_default(),
            _ = tokio::signal::ctrl_c() => true,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// How many problems are shown.
const PROBLEMS: usize = 3;

fn draw(problems: &Value, stats: &Value, tools: &Value, live: &Value) {
    let is_terminal = io::stdout().is_terminal();
    let busy = |tool: &&Value| {
        ["queued", "running", "suspended", "blocked"]
            .iter()
            .any(|state| tool[*state] != 0)
    };
    let tools: Vec<Value> = tools.as_array().into_iter().flatten().filter(busy).cloned().collect();
    let width = show::width();
    let mut lines = wrapped(&show::stats(stats), width);
    let problems = show::list(problems, "problems");
    let shown = problems.iter().take(PROBLEMS);
    lines.extend(shown.map(|problem| format!("! {}", show::text(problem, "what"))));
    if problems.len() > PROBLEMS {
        let more = problems.len() - PROBLEMS;
        lines.push(format!("! and {more} more: `longhaul admin doctor`"));
    }
    lines.push(String::new());
    lines.extend(show::tools(&tools, width).lines().map(str::to_owned));
    lines.push(String::new());
    lines.extend(show::tasks(show::list(live, "tasks"), width).lines().map(str::to_owned));
    if is_terminal {
        lines.truncate(height());
        let mut out = io::stdout().lock();
        // From the top left corner: each line to its end, then what is below.
        let shown: String = lines
            .iter()
            .map(|line| {
                // A line that is too long would push the first one out of the screen.
                let line: String = output::plain(line, "").chars().take(width).collect();
                format!("{line}\x1b[K\r\n")
            })
            .collect();
        let _ = write!(out, "\x1b[H{}\x1b[J", shown.trim_end_matches("\r\n"));
        let _ = out.flush();
    } else {
        output::text(&lines.join("\n"));
    }
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
    use super::wrapped;

    #[test]
    fn lines_are_not_longer_than_the_screen() {
        assert_eq!(wrapped("ab cd ef longer", 5), ["ab cd", "ef", "longer"]);
        assert_eq!(wrapped("ab cd", usize::MAX), ["ab cd"]);
    }
}
