//! The newest line of a command's output, as a status, and the numbers a pattern finds in it.

use longhaul_core::{plain_line, terminal_text, truncate};
use regex::Regex;

/// A status line is cut here, in bytes.
const MAX_STATUS: usize = 400;

/// A regular expression with a group named `current`, and perhaps one named `total`.
pub(super) struct ProgressPattern(Regex);

/// Status and progress, as the newest output shows them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct OutputReport {
    /// A line for people.
    pub(super) status: Option<String>,
    /// How far it has come.
    pub(super) current: Option<f64>,
    /// Of how much.
    pub(super) total: Option<f64>,
}

impl ProgressPattern {
    /// Parses it; the error is a sentence.
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        let regex = Regex::new(pattern).map_err(|error| error.to_string())?;
        if regex.capture_names().flatten().any(|name| name == "current") {
            Ok(Self(regex))
        } else {
            Err(r"needs a group named `current`, for example `(?<current>\d+)/(?<total>\d+)`".to_owned())
        }
    }

    fn read(&self, line: &str) -> Option<(f64, Option<f64>)> {
        let found = self.0.captures(line)?;
        let number = |name| {
            found
                .name(name)?
                .as_str()
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|n| n.is_finite())
        };
        Some((number("current")?, number("total")))
    }
}

/// Reads the newest lines of a command's output: `ends` are the ends of its streams, the newest first. With a pattern, the newest line it matches counts, both
/// as status and for its numbers; without, the newest line does. Until the command `is_over`, a line may not be complete.
pub(super) fn read_report(ends: &[&str], pattern: Option<&ProgressPattern>, is_over: bool) -> OutputReport {
    let shown: Vec<_> = ends
        .iter()
        .map(|end| if is_over { end } else { complete(end) })
        .map(|end| terminal_text(end.as_bytes()))
        .collect();
    let mut lines = shown
        .iter()
        .flat_map(|text| text.lines().rev())
        .filter(|line| !line.trim().is_empty());
    match pattern {
        None => OutputReport {
            status: lines.next().map(plain),
            ..OutputReport::default()
        },
        Some(pattern) => lines
            .find_map(|line| {
                let (current, total) = pattern.read(line)?;
                Some(OutputReport {
                    status: Some(plain(line)),
                    current: Some(current),
                    total,
                })
            })
            .unwrap_or_default(),
    }
}

/// Without a line that has only begun. A line that is drawn again and again, as a progress bar is, counts as it stands; and so does a text without any end of
/// line, which may be a question.
fn complete(end: &str) -> &str {
    match end.rfind('\n') {
        Some(last) if !end[last..].contains('\r') => &end[..last],
        _ => end,
    }
}

fn plain(line: &str) -> String {
    truncate(plain_line(line).trim(), MAX_STATUS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(end: &str) -> Option<String> {
        read_report(&[end], None, false).status
    }

    #[test]
    fn the_newest_complete_line_is_the_status() {
        for (end, expected) in [
            ("one\ntwo\nthr", "two"),
            ("one\r 50%\r", "50%"),
            ("start\n\r 49%\r 50%", "50%"),
            ("asking: ", "asking:"),
            ("\u{1b}[32mgreen\u{1b}[0m\n\n", "green"),
            (
                "\u{1b}]0;title\u{7}\u{1b}]8;;https://a.example\u{1b}\\log\u{1b}]8;;\u{1b}\\ ok\u{1b}(B\n",
                "log ok",
            ),
            ("a\tb \u{202e}backwards\u{2028}\n", "a b  backwards"),
        ] {
            assert_eq!(status(end).as_deref(), Some(expected), "{end:?}");
        }
        assert_eq!(status(""), None);
        assert_eq!(read_report(&["one\ntwo"], None, true).status.as_deref(), Some("two"));
    }

    #[test]
    fn the_newest_match_gives_the_numbers() {
        let pattern = ProgressPattern::parse(r"(?<current>\d+)/(?<total>\d+)").unwrap();
        let report = |ends: &[&str]| read_report(ends, Some(&pattern), false);
        let expected = OutputReport {
            status: Some("2/10".into()),
            current: Some(2.0),
            total: Some(10.0),
        };
        assert_eq!(report(&["1/10\n2/10\nchatter\n"]), expected);
        assert_eq!(report(&["chatter\n", "1/10\r2/10\r"]), expected, "of the other stream");
        assert_eq!(report(&["chatter\n"]), OutputReport::default());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = "é".repeat(1_000);
        assert!(status(&format!("{line}\n")).unwrap().len() <= MAX_STATUS);
    }
}
