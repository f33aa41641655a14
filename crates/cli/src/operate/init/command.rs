//! The command of a tool, made of a command line that a user has typed.

use crate::mcp_servers::usable_name;
use longhaul_command::{CommandElement, script_words};
use std::{collections::BTreeSet, path::Path};

/// Programs that run another one, or a script: a tool is called by what they run.
const RUNNERS: [&str; 14] = [
    "bash", "bun", "deno", "env", "nice", "node", "npx", "perl", "php", "python", "python3", "ruby", "sh", "uvx",
];

/// A command as the configuration has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolCommand {
    /// The program, and templates of its arguments.
    pub(super) words: Vec<String>,
    /// The properties that are placeholders in it.
    pub(super) properties: BTreeSet<String>,
    /// The names in braces that stay as they stand, since they are in a script.
    pub(super) literal: BTreeSet<String>,
    /// What stands in braces and looks like a placeholder, and is none, as `{a b}`.
    pub(super) misnamed: Option<String>,
}

impl ToolCommand {
    /// Takes `{name}` for a placeholder. All other braces are literal, also those of scripts (`sh -c`), in which no value of a caller may stand.
    pub(super) fn of_words(words: &[String]) -> Self {
        let mut nothing = BTreeSet::new();
        let literal: Vec<CommandElement> = words
            .iter()
            .map(|word| template(word, Braces::Literal, &mut nothing).into())
            .collect();
        let scripts = script_words(&literal);
        let (mut properties, mut in_scripts) = (BTreeSet::new(), BTreeSet::new());
        let mut command = Vec::new();
        for (index, word) in words.iter().enumerate() {
            command.push(match index {
                // The program is no template.
                0 => word.clone(),
                _ if scripts.contains(&index) => template(word, Braces::Literal, &mut in_scripts),
                _ => template(word, Braces::Placeholders, &mut properties),
            });
        }
        Self {
            words: command,
            properties,
            literal: in_scripts,
            misnamed: words.iter().skip(1).find_map(|word| misnamed(word)),
        }
    }

    /// What the tool can be called.
    pub(super) fn tool_name(words: &[String]) -> String {
        let stem = |word: &String| {
            Path::new(word)
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        };
        let mut names = words.iter().map(stem);
        let program = names.next().flatten().unwrap_or_default();
        let run = words.get(1).filter(|word| !word.starts_with('-'));
        let named = match run.filter(|_| RUNNERS.contains(&program.as_str())).and_then(stem) {
            Some(run) => usable_name(&run),
            None => usable_name(&program),
        };
        match named.trim_matches(['_', '-']) {
            "" => "run".to_owned(),
            named => named.to_owned(),
        }
    }
}

/// What `{name}` is in a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Braces {
    Placeholders,
    Literal,
}

/// The template that stands for a word. The names in braces are collected in any case.
fn template(word: &str, braces: Braces, names: &mut BTreeSet<String>) -> String {
    let mut template = String::new();
    let mut rest = word;
    while let Some(char) = rest.chars().next() {
        if let Some(name) = placeholder(&word[..word.len() - rest.len()], rest) {
            names.insert(name.to_owned());
            if braces == Braces::Placeholders {
                let length = name.len() + 2;
                template.push_str(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
        }
        template.push(char);
        if "{}".contains(char) {
            template.push(char);
        }
        rest = &rest[char.len_utf8()..];
    }
    template
}

/// The name if `rest` begins with a placeholder: neither `${NAME}` of a shell nor `{{name}}` of other templates.
fn placeholder<'a>(before: &str, rest: &'a str) -> Option<&'a str> {
    let (name, after) = rest.strip_prefix('{')?.split_once('}')?;
    let is_begin = |char: char| char.is_ascii_alphabetic() || char == '_';
    let is_name = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
    let is_alone = !before.ends_with(['{', '$']) && !after.starts_with('}');
    (is_alone && name.starts_with(is_begin) && name.chars().all(is_name)).then_some(name)
}

/// The first thing in braces that may be meant as a placeholder, and is none.
fn misnamed(word: &str) -> Option<String> {
    let mut opened = word.match_indices('{').map(|(at, _)| (&word[..at], &word[at..]));
    opened.find_map(|(before, rest)| {
        let (name, after) = rest[1..].split_once('}')?;
        let is_alone = !before.ends_with(['{', '$']) && !after.starts_with('}');
        let is_words = name.chars().all(|char| char.is_alphanumeric() || " _-.".contains(char));
        let is_meant = is_alone && is_words && !name.is_empty() && placeholder(before, rest).is_none();
        is_meant.then(|| format!("{{{name}}}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> ToolCommand {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        ToolCommand::of_words(&words)
    }

    #[test]
    fn only_a_name_in_single_braces_is_a_placeholder() {
        for (word, template, properties) in [
            ("{x}", "{x}", &["x"][..]),
            ("--out={a_1}/{b-2}.txt", "--out={a_1}/{b-2}.txt", &["a_1", "b-2"]),
            ("{}", "{{}}", &[]),
            ("{1}", "{{1}}", &[]),
            ("{{.Names}}", "{{{{.Names}}}}", &[]),
            ("{{x}}", "{{{{x}}}}", &[]),
            ("${HOME}", "${{HOME}}", &[]),
            ("{\"a\": 1}", "{{\"a\": 1}}", &[]),
            ("{a,b}", "{{a,b}}", &[]),
            ("{é}", "{{é}}", &[]),
            ("{", "{{", &[]),
            ("}{x", "}}{{x", &[]),
            ("{x}{y}", "{x}{y}", &["x", "y"]),
        ] {
            let made = command(&["true", word]);
            assert_eq!(made.words[1], template, "{word}");
            assert!(made.properties.iter().eq(properties), "{word}: {:?}", made.properties);
        }
        let made = command(&["{x}", "{x}"]);
        assert_eq!(made.words, ["{x}", "{x}"]);
    }

    #[test]
    fn no_value_of_a_caller_stands_in_a_script() {
        let made = command(&["sh", "-c", "echo {x}; f() { echo; }", "sh", "{y}"]);
        assert_eq!(made.words[2], "echo {{x}}; f() {{ echo; }}");
        assert!(
            made.properties.iter().eq(["y"]) && made.literal.iter().eq(["x"]),
            "{made:?}"
        );
    }

    #[test]
    fn what_may_be_meant_as_a_placeholder_is_named() {
        for (word, misnamed) in [
            ("x{a b}", Some("{a b}")),
            ("{1}", Some("{1}")),
            ("{x}{é}", Some("{é}")),
            ("{}", None),
            ("{x}", None),
            ("${HOME} {{.Names}} {{x}}", None),
            ("{\"a\": 1}", None),
            ("{", None),
        ] {
            assert_eq!(command(&["true", word]).misnamed.as_deref(), misnamed, "{word}");
        }
    }

    #[test]
    fn a_tool_is_called_by_what_it_runs() {
        for (words, name) in [
            (&["./build.sh", "{branch}"][..], "build"),
            (&["/usr/bin/make", "test"], "make"),
            (&["python3", "train it.py"], "train_it"),
            (&["python3", "-m", "http.server"], "python3"),
            (&["sh", "-c", "x"], "sh"),
            (&["größe"], "gr__e"),
            (&["_prog_"], "prog"),
            (&["./-x"], "x"),
            (&["日本"], "run"),
            (&["/"], "server"),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(ToolCommand::tool_name(&words), name);
        }
    }
}
