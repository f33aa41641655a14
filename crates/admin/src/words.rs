//! Words that operators read and write.

use longhaul_core::{Now, State, UnixMillis, Verdict, push_timestamp};

/// Tasks of clients of 2025-11-25 or earlier.
pub(crate) const LEGACY: &str = "legacy";
/// Those of clients of 2026-07-28 or later.
pub(crate) const MODERN: &str = "modern";

/// The word for a state.
pub(crate) fn state_word(state: State) -> &'static str {
    match state {
        State::Queued => "queued",
        State::Running => "running",
        State::Suspended => "suspended",
        State::Blocked => "blocked",
        State::Done(Verdict::Succeeded) => "succeeded",
        State::Done(Verdict::ToolError | Verdict::RpcError) => "failed",
        State::Done(Verdict::Cancelled) => "cancelled",
    }
}

/// A text of somebody else on one line. What could hide or reverse the letters around it is a space: line breaks, control characters, and those that change the direction
/// of letters.
pub(crate) fn plain(text: &str) -> String {
    let changes_line =
        |char: char| matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |char: char| {
        if char.is_control() || changes_line(char) {
            ' '
        } else {
            char
        }
    };
    text.chars().map(shown).collect()
}

/// A time as RFC 3339.
pub(crate) fn timestamp(now: Now, at: UnixMillis) -> String {
    let mut text = String::new();
    push_timestamp(&mut text, now.in_the_world(at));
    text
}

/// A length of time for people: its two largest units.
pub(crate) fn length(millis: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let Some(first) = UNITS.iter().position(|(_, unit)| millis >= *unit) else {
        return format!("{millis} ms");
    };
    let (name, unit) = UNITS[first];
    let mut text = format!("{} {name}", millis / unit);
    if let Some((name, smaller)) = UNITS.get(first + 1).filter(|(_, smaller)| millis % unit >= *smaller) {
        text.push_str(&format!(" {} {name}", millis % unit / smaller));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_change_the_letters_around_it_is_not_shown() {
        let name = "oauth:https://a.example\nuser:a\u{202e}nimda\u{2066}\u{1b}[2J";
        assert_eq!(plain(name), "oauth:https://a.example user:a nimda  [2J");
        assert_eq!(plain("Zoë שלום"), "Zoë שלום");
    }

    #[test]
    fn lengths_have_two_units() {
        let shown = [0, 999, 1_000, 61_000, 3_600_000, 3_661_000, 90_000_000].map(length);
        assert_eq!(shown, ["0 ms", "999 ms", "1 s", "1 m 1 s", "1 h", "1 h 1 m", "1 d 1 h"]);
    }
}
