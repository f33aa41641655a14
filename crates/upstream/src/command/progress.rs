//! The newest line of a command's output, as a status, and the numbers a pattern finds in it.

use longhaul_core::truncate;
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

/// Reads the newest lines of a command's output. With a pattern, the newest line it matches counts, both as status and for its
/// numbers; without, the newest line does.
pub(super) fn read_report(tail: &str, pattern: Option<&ProgressPattern>) -> OutputReport {
    // A progress bar ends its lines with a carriage return.
    let mut lines = newest_first(tail);
    match pattern {
        None => OutputReport {
            status: lines.next().map(|line| plain(&line)),
            ..OutputReport::default()
        },
        Some(pattern) => lines
            .find_map(|line| {
                let (current, total) = pattern.read(&line)?;
                Some(OutputReport {
                    status: Some(plain(&line)),
                    current: Some(current),
                    total,
                })
            })
            .unwrap_or_default(),
    }
}

/// Complete lines, the newest first; a text without any end of line counts as one.
fn newest_first(tail: &str) -> impl Iterator<Item = String> {
    let complete = tail.rfind(['\n', '\r']).map_or(tail, |end| &tail[..end]);
    complete
        .rsplit(['\n', '\r'])
        .map(without_escapes)
        .filter(|line| !line.trim().is_empty())
}

/// Drops the terminal's escape sequences (colours, cursor moves) and other control characters.
fn without_escapes(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\t' => text.push(' '),
            char if char.is_control() => {}
            char => text.push(char),
        }
    }
    text
}

fn plain(line: &str) -> String {
    let line = line.trim();
    truncate(line, MAX_STATUS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_line_is_the_status() {
        assert_eq!(read_report("one\ntwo\nthr", None).status.as_deref(), Some("two"));
        assert_eq!(read_report("one\r 50%\r", None).status.as_deref(), Some("50%"));
        assert_eq!(read_report("asking: ", None).status.as_deref(), Some("asking:"));
        assert_eq!(
            read_report("\u{1b}[32mgreen\u{1b}[0m\n\n", None).status.as_deref(),
            Some("green")
        );
        assert_eq!(read_report("", None), OutputReport::default());
    }

    #[test]
    fn the_newest_match_gives_the_numbers() {
        let pattern = ProgressPattern::parse(r"(?<current>\d+)/(?<total>\d+)").unwrap();
        let report = read_report("1/10\n2/10\nchatter\n", Some(&pattern));
        assert_eq!(
            report,
            OutputReport {
                status: Some("2/10".into()),
                current: Some(2.0),
                total: Some(10.0)
            }
        );
        assert_eq!(read_report("chatter\n", Some(&pattern)), OutputReport::default());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = "é".repeat(1_000);
        assert!(read_report(&format!("{line}\n"), None).status.unwrap().len() <= MAX_STATUS);
    }
}
