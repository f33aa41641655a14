//! Puts `longhaul wrap` before the commands of a file, and takes it away. Nothing else of the text changes: comments and white space stay.

use super::document::{Language, Node, Value};
use crate::args::{Host, Import};
use longhaul_core::{Millis, format_duration, parse_duration};
use std::{ops::Range, path::Path};

/// The argument by which an import knows again what it has put behind Longhaul.
const IMPORTED: &str = "--imported";
/// The hand-off of a new entry if none is asked for, in milliseconds.
const HANDOFF: Millis = 45_000;
/// Why an entry with `wrap` stays as it is.
const NOT_IMPORTED: &str = "it runs behind Longhaul already, and no import has put it there: change it by hand";
const UNCHANGED: &str = "it runs behind Longhaul already";

/// What becomes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) text: String,
    pub(super) changed: Vec<Changed>,
    pub(super) left: Vec<Left>,
}

/// A server that is started otherwise.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) name: String,
    /// Program and arguments.
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
}

/// A server that stays as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) name: String,
    pub(super) why: &'static str,
}

/// How a server is started.
struct Start<'a> {
    /// The program.
    command: &'a Node,
    program: &'a str,
    /// The array of the arguments, if there is one.
    array: Option<&'a Node>,
    arguments: Vec<(&'a str, &'a Range<usize>)>,
    /// The variables that the file gives it.
    variables: Vec<&'a str>,
}

/// What replaces bytes of the text.
type Splice = (Range<usize>, String);

/// Puts `program wrap` before every command. A hand-off that is asked for, in milliseconds and 0 for none, changes the servers of earlier imports, too.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn wrap(text: &str, import: &Import, program: &str) -> Result<Rewritten, String> {
    let (host, handoff) = (import.host, import.handoff);
    rewrite(text, host, |start| {
        if let Some(at) = start.wrapped_at() {
            return start.with_handoff(text, host, at, handoff);
        }
        if is_longhaul(start.program) {
            return Err("it is Longhaul itself");
        }
        let handoff = Some(handoff.unwrap_or(HANDOFF)).filter(|handoff| *handoff > 0);
        let handoff = handoff.map(format_duration);
        let mut words = vec!["wrap", IMPORTED];
        words.extend(handoff.iter().flat_map(|handoff| ["--handoff", handoff]));
        words.extend(import.name.iter().flat_map(|name| ["--name", name]));
        words.extend(import.era.iter().flat_map(|era| ["--era", era.word()]));
        words.extend(import.shared.then_some("--shared"));
        // What the file gives to this entry tells its account from that of another.
        words.extend(start.variables.iter().flat_map(|name| ["--env", name]));
        words.extend(["--", start.program]);
        let quote = |text: &str| quoted(text, host.language());
        let inserted: Vec<String> = words.iter().map(|word| quote(word)).collect();
        let inserted = inserted.join(", ");
        let arguments = match (start.array, start.arguments.first()) {
            // The program is in the same array.
            (Some(array), None) if array.range.contains(&start.command.range.start) => {
                let behind = start.command.range.end;
                (behind..behind, format!(", {inserted}"))
            }
            (Some(_), Some((_, first))) => (first.start..first.start, format!("{inserted}, ")),
            (Some(array), None) => (array.range.start + 1..array.range.start + 1, inserted),
            (None, _) => new_member(text, start.command, host.language(), &inserted)?,
        };
        let after = [program].into_iter().chain(words);
        let after = after.chain(start.arguments.iter().map(|(argument, _)| *argument));
        Ok((
            vec![(start.command.range.clone(), quote(program)), arguments],
            after.map(str::to_owned).collect(),
        ))
    })
}

/// Whether an import has put a server of the file behind Longhaul.
pub(super) fn has_imported(text: &str, host: Host) -> bool {
    let imported = rewrite(text, host, |start| match start.imported_at() {
        Some(_) => Ok((Vec::new(), Vec::new())),
        None => Err(NOT_IMPORTED),
    });
    imported.is_ok_and(|rewritten| !rewritten.changed.is_empty())
}

/// Takes `longhaul wrap` away from every command that an import has put behind it.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn unwrap(text: &str, host: Host) -> Result<Rewritten, String> {
    rewrite(text, host, |start| {
        if start.wrapped_at().is_none() {
            return Err("it does not run behind Longhaul");
        }
        let at = start.imported_at().ok_or(NOT_IMPORTED)?;
        let (wrapped, _) = start.arguments[at];
        let (_, first) = start.arguments[0];
        let end = match (start.arguments.get(at + 1), start.array) {
            (Some((_, rest)), _) => rest.start,
            // With a comma behind the last one.
            (None, Some(array)) => first.start + text[first.start..array.range.end - 1].trim_end().len(),
            (None, None) => first.start,
        };
        // With the comma before, if only the program is left in the array.
        let begin = match start.array {
            Some(array) if at + 1 == start.arguments.len() && array.range.contains(&start.command.range.start) => {
                start.command.range.end
            }
            _ => first.start,
        };
        let removed = begin..end;
        let comma = text[begin..first.start].trim();
        if !matches!(comma, "" | ",") || has_comment(&text[first.start..end], host.language()) {
            return Err("there is a comment between its arguments: remove `longhaul wrap` by hand");
        }
        let program = quoted(wrapped, host.language());
        let after = start.arguments[at..].iter().map(|(argument, _)| (*argument).to_owned());
        Ok((
            vec![(start.command.range.clone(), program), (removed, String::new())],
            after.collect(),
        ))
    })
}

/// What [`wrap`] and [`unwrap`] make of a file together: all have `args` then, and the quotes of commands are of one kind.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn as_undone(text: &str, host: Host) -> Result<Rewritten, String> {
    rewrite(text, host, |start| {
        if start.wrapped_at().is_some() {
            return Err(NOT_IMPORTED);
        }
        let mut splices = vec![(start.command.range.clone(), quoted(start.program, host.language()))];
        if start.array.is_none() {
            splices.push(new_member(text, start.command, host.language(), "")?);
        }
        Ok((splices, Vec::new()))
    })
}

/// What a change makes of a start, or why it stays.
type Change = Result<(Vec<Splice>, Vec<String>), &'static str>;

fn rewrite(text: &str, host: Host, change: impl Fn(&Start<'_>) -> Change) -> Result<Rewritten, String> {
    let root = Node::parse(text, host.language())?;
    let (mut changed, mut left, mut splices) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_place = false;
    for (scope, servers) in host.places().iter().flat_map(|place| found(&root, place)) {
        has_place = true;
        for (name, entry) in servers.members() {
            let name = match scope {
                Some(scope) => format!("{name} ({scope})"),
                None => name.clone(),
            };
            let rewritten = Start::read(entry).and_then(|start| Ok((change(&start)?, start)));
            match rewritten {
                Ok(((new, after), start)) => {
                    splices.extend(new);
                    let before = start.arguments.iter().map(|(argument, _)| *argument);
                    let before = [start.program].into_iter().chain(before);
                    changed.push(Changed {
                        name,
                        before: before.map(str::to_owned).collect(),
                        after,
                    });
                }
                Err(why) => left.push(Left { name, why }),
            }
        }
    }
    if !has_place {
        let place = host.places()[0].join(".");
        return Err(format!("it has no `{place}`, so no server is configured in it"));
    }
    splices.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut new = text.to_owned();
    for (range, with) in splices {
        new.replace_range(range, &with);
    }
    Ok(Rewritten {
        text: new,
        changed,
        left,
    })
}

/// What is at a place of a document, with the name that stands for `*`.
fn found<'a>(root: &'a Node, place: &[&str]) -> Vec<(Option<&'a str>, &'a Node)> {
    let Some((name, rest)) = place.split_first() else {
        return vec![(None, root)];
    };
    if *name != "*" {
        return root.member(name).map(|node| found(node, rest)).unwrap_or_default();
    }
    let each = root.members().iter().flat_map(|(name, node)| {
        let below = found(node, rest).into_iter();
        below.map(move |(_, node)| (Some(name.as_str()), node))
    });
    each.collect()
}

impl<'a> Start<'a> {
    fn read(entry: &'a Node) -> Result<Self, &'static str> {
        let is_remote = ["url", "httpUrl", "serverUrl"]
            .iter()
            .any(|member| entry.member(member).is_some());
        let Some(command) = entry.member("command") else {
            return Err(match is_remote {
                true => "it is not started by the host, but at a URL",
                false => "it has no `command`",
            });
        };
        // opencode has program and arguments in one array.
        if let Value::Array(words) = &command.value {
            let words: Option<Vec<_>> = words.iter().map(|word| Some((word.text()?, word))).collect();
            let words = words.ok_or("its `command` is not an array of strings")?;
            let ((program, first), rest) = words.split_first().ok_or("its `command` is empty")?;
            let given = entry.member("environment").map(Node::members).unwrap_or_default();
            return Ok(Self {
                command: first,
                program,
                array: Some(command),
                arguments: rest.iter().map(|(word, node)| (*word, &node.range)).collect(),
                variables: given.iter().map(|(name, _)| name.as_str()).collect(),
            });
        }
        // Zed had program and arguments in an object.
        let (command, entry) = match command.member("path") {
            Some(path) => (path, command),
            None => (command, entry),
        };
        let program = command.text().ok_or("its `command` is not a string")?;
        let array = entry.member("args");
        let arguments = match array.map(|array| &array.value) {
            None => Some(Vec::new()),
            Some(Value::Array(elements)) => elements
                .iter()
                .map(|element| Some((element.text()?, &element.range)))
                .collect(),
            Some(_) => None,
        };
        let given = entry.member("env").map(Node::members).unwrap_or_default();
        // Those that Codex passes on.
        let passed_on = entry.member("env_vars").map(Node::elements).unwrap_or_default();
        let variables = given.iter().map(|(name, _)| name.as_str());
        Ok(Self {
            variables: variables.chain(passed_on.iter().filter_map(Node::text)).collect(),
            command,
            program,
            array,
            arguments: arguments.ok_or("its `args` are not an array of strings")?,
        })
    }

    /// Which argument is the wrapped program.
    fn wrapped_at(&self) -> Option<usize> {
        let mut words = self.arguments.iter().map(|(word, _)| *word);
        if !is_longhaul(self.program) || words.next() != Some("wrap") {
            return None;
        }
        let at = words.position(|word| word == "--")? + 2;
        (at < self.arguments.len()).then_some(at)
    }

    /// The same, if an import has put it behind Longhaul.
    fn imported_at(&self) -> Option<usize> {
        let at = self.wrapped_at()?;
        let options = &self.arguments[..at - 1];
        options.iter().any(|(word, _)| *word == IMPORTED).then_some(at)
    }

    /// Gives an entry with `wrap` another hand-off. `at` is the argument that is the wrapped program.
    fn with_handoff(&self, text: &str, host: Host, at: usize, asked: Option<Millis>) -> Change {
        self.imported_at().ok_or(NOT_IMPORTED)?;
        let asked = asked.ok_or(UNCHANGED)?;
        // A value stands behind it, and `--` behind that.
        let option = self.arguments[..at - 2]
            .iter()
            .position(|(word, _)| *word == "--handoff");
        let present = option.map(|option| self.arguments[option + 1].0);
        if present.map_or(Some(0), |present| parse_duration(present).ok()) == Some(asked) {
            return Err(UNCHANGED);
        }
        let mut after: Vec<String> = self.arguments.iter().map(|(word, _)| (*word).to_owned()).collect();
        let new = format_duration(asked);
        let splice = match option {
            Some(option) if asked > 0 => {
                after[option + 1].clone_from(&new);
                (self.arguments[option + 1].1.clone(), quoted(&new, host.language()))
            }
            Some(option) => {
                let removed = self.arguments[option].1.start..self.arguments[option + 2].1.start;
                if has_comment(&text[removed.clone()], host.language()) {
                    return Err("there is a comment between its arguments: remove `--handoff` by hand");
                }
                after.drain(option..option + 2);
                (removed, String::new())
            }
            None => {
                after.splice(1..1, ["--handoff".to_owned(), new.clone()]);
                let quote = |text: &str| quoted(text, host.language());
                let before = self.arguments[1].1.start;
                (before..before, format!("{}, {}, ", quote("--handoff"), quote(&new)))
            }
        };
        after.insert(0, self.program.to_owned());
        Ok((vec![splice], after))
    }
}

fn is_longhaul(program: &str) -> bool {
    Path::new(program).file_stem().is_some_and(|name| name == "longhaul")
}

/// `args` for a server that has none.
fn new_member(text: &str, command: &Node, language: Language, arguments: &str) -> Result<Splice, &'static str> {
    let at = command.range.end;
    if language == Language::Json {
        return Ok((at..at, format!(", \"args\": [{arguments}]")));
    }
    // A line of its own before that of the command, whose key may have dots.
    let line = text[..command.range.start].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[line..command.range.start];
    if before.contains('{') {
        return Ok((at..at, format!(", args = [{arguments}]")));
    }
    let key = before.trim_end().strip_suffix('=').map(str::trim_end);
    let key = key.and_then(|key| key.strip_suffix("command"));
    let key = key.ok_or("its `command` is written in a way that is not understood: give it `args = []`")?;
    Ok((line..line, format!("{key}args = [{arguments}]\n")))
}

/// Whether there is a comment between strings.
fn has_comment(text: &str, language: Language) -> bool {
    let wrapped = format!("[{text}]");
    let between = match Node::parse(
        &if language == Language::Toml {
            format!("a = {wrapped}")
        } else {
            wrapped
        },
        language,
    ) {
        Ok(node) => node,
        // It is cut off behind a comma or so.
        Err(_) => return true,
    };
    let (array, offset) = match between.member("a") {
        Some(array) => (array, "a = [".len()),
        None => (&between, 1),
    };
    let Value::Array(elements) = &array.value else {
        return true;
    };
    let mut rest = text.to_owned();
    for element in elements.iter().rev() {
        rest.replace_range(element.range.start - offset..element.range.end - offset, "");
    }
    rest.contains(['/', '#'])
}

fn quoted(text: &str, language: Language) -> String {
    match language {
        Language::Json => serde_json::Value::from(text).to_string(),
        Language::Toml => toml::Value::from(text).to_string(),
    }
}
