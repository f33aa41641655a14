//! Placeholders whose values cannot change what a script does.

use std::collections::BTreeSet;

/// The properties whose values hold nothing that a shell gives a meaning, as far as the schema of the input says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HarmlessValues {
    /// One of some values that the operator has written, a number or a boolean.
    pub fixed: BTreeSet<String>,
    /// Any one word that does not begin with `-`. Where a command is expected it would be one.
    pub words: BTreeSet<String>,
}

/// Where code stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the script of a shell.
    Shell,
    /// Among the targets of `make`, where what is no variable and no option is a name.
    Target,
    Other,
}

/// After these words of a shell a command follows.
const BEFORE_COMMANDS: [&str; 17] = [
    "then", "do", "else", "elif", "if", "while", "until", "exec", "eval", "sudo", "doas", "env", "nohup", "time",
    "command", "builtin", "xargs",
];

impl HarmlessValues {
    /// Whether no value of `property` is more than an argument where it stands in `text`.
    pub(super) fn has(&self, property: &str, text: &str, place: Place) -> bool {
        if self.fixed.contains(property) {
            return true;
        }
        let placeholder = format!("{{{property}}}");
        self.words.contains(property)
            && match place {
                Place::Shell => (text.match_indices(&placeholder)).all(|(at, _)| follows_a_word(&text[..at])),
                Place::Target => text == placeholder,
                Place::Other => false,
            }
    }
}

/// Whether the script `before` ends within the arguments of a command.
fn follows_a_word(before: &str) -> bool {
    let is_space = |char: char| [' ', '\t'].contains(&char);
    let is_operator = |char: char| char.is_whitespace() || ";|&({`".contains(char);
    let last = before
        .trim_end_matches(is_space)
        .rsplit(is_operator)
        .next()
        .unwrap_or_default();
    let is_plain = |char: char| char.is_alphanumeric() || "_-./:,+@%\"'".contains(char);
    !last.is_empty() && last.chars().all(is_plain) && !BEFORE_COMMANDS.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_harmless_as_arguments_and_not_as_commands() {
        let harmless = HarmlessValues {
            words: ["x".to_owned()].into(),
            ..HarmlessValues::default()
        };
        let has = |text| harmless.has("x", text, Place::Shell);
        for text in [
            "make {x}",
            "cd /srv && ./run.sh --env {x}",
            "echo a/{x}",
            "a | grep -- \"{x}\"",
        ] {
            assert!(has(text), "{text}");
        }
        for text in [
            "{x}",
            " {x}",
            "a; {x}",
            "a && {x}",
            "a | {x}",
            "$({x})",
            "`{x}`",
            "if {x}",
            "sudo {x}",
            "A=b {x}",
            "$A {x}",
            "make {x}; {x}",
            "a > {x}",
            "! {x}",
            "a\n{x}",
        ] {
            assert!(!has(text), "{text}");
        }
        assert!(!harmless.has("x", "make {x}", Place::Other));
    }
}
