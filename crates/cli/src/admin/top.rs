//! `longhaul admin top`: the live tasks on a screen that follows them.

use super::{api::Api, show};
use crate::{failure::Failure, output, result::Exit};
use longhaul_client::SystemClock;
use longhaul_core::Clock as _;
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

const ROUND: Duration = Duration::from_secs(1);
/// Tasks that are shown if the terminal does not say how many lines it has.
const LINES: usize = 24;

/// Runs until it is interrupted. Without a terminal it prints the present and ends.
pub(super) async fn run(api: &Api, as_json: bool) -> Result<Exit, Failure> {
    loop {
        let stats = api.get("/api/stats").await?;
        let tools = api.get("/api/tools").await?;
        let live = api.get("/api/tasks?state=live&order=oldest&limit=200").await?;
        if as_json {
            output::json_line(&json!({"stats": stats, "tools": tools, "tasks": live["tasks"]}));
        } else {
            draw(&stats, &tools, &live);
        }
        if !io::stdout().is_terminal() || output::has_failed() {
            return Ok(Exit::Answered);
        }
        SystemClock.sleep(ROUND).await;
    }
}

fn draw(stats: &Value, tools: &Value, live: &Value) {
    let is_terminal = io::stdout().is_terminal();
    let busy = |tool: &&Value| {
        ["queued", "running", "suspended", "blocked"]
            .iter()
            .any(|state| tool[*state] != 0)
    };
    let tools: Vec<Value> = tools.as_array().into_iter().flatten().filter(busy).cloned().collect();
    let width = show::width();
    let mut lines = wrapped(&show::stats(stats), width);
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
