//! Placeholders whose values cannot change what a script does.

use super::template::{Placeholder, ValueForm};
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
    /// Whether no value of the placeholder is more than an argument where it stands in `text`.
    pub(super) fn has(&self, placeholder: &Placeholder<'_>, text: &str, place: Place) -> bool {
        if self.fixed.contains(placeholder.name) {
            return true;
        }
        let is_word = placeholder.form == ValueForm::Word && self.words.contains(placeholder.name);
        let placeholder = placeholder.to_string();
        is_word
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
    use crate::command::definition::template::Template;

    #[test]
    fn words_are_harmless_as_arguments_and_not_as_commands() {
        let harmless = HarmlessValues {
            words: ["x".to_owned()].into(),
            ..HarmlessValues::default()
        };
        let has_at = |text: &str, place| {
            let template = Template::parse(text).unwrap();
            let first = template.placeholders().next().unwrap();
            harmless.has(&first, text, place)
        };
        let has = |text| has_at(text, Place::Shell);
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
            "make {x:json}",
        ] {
            assert!(!has(text), "{text}");
        }
        assert!(!has_at("make {x}", Place::Other));
    }
}
