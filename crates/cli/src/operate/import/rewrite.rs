//! Puts `longhaul wrap` before the commands of a file, and takes it away. Nothing else of the text changes: comments and white space stay.

use super::document::{Language, Node, Value};
use crate::args::{Header, Host, Import};
use longhaul_core::{Millis, format_duration, parse_duration};
use longhaul_runtime::DEFAULT_HANDOFF;
use std::{borrow::Cow, ops::Range, path::Path};

/// The argument by which an import knows again what it has put behind Longhaul.
const IMPORTED: &str = "--imported";
/// The argument before the text of an entry that had a URL, which an undo puts back.
const IMPORTED_ENTRY: &str = "--imported-entry";
/// The members of an entry that hold a URL.
const URLS: [&str; 3] = ["url", "httpUrl", "serverUrl"];
/// Why an entry with `wrap` stays as it is.
const NOT_IMPORTED: &str = "it runs behind Longhaul already, and no import has put it there: change it by hand";
const UNCHANGED: &str = "it runs behind Longhaul already";

/// What becomes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RewrittenFile {
    pub(super) text: String,
    pub(super) changed: Vec<ChangedServer>,
    pub(super) left: Vec<UnchangedServer>,
}

/// A server that is started otherwise.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangedServer {
    pub(super) name: String,
    /// Program and arguments.
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
}

/// A server that stays as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnchangedServer {
    pub(super) name: String,
    pub(super) why: Cow<'static, str>,
}

/// How a server is started.
struct Start<'a> {
    entry: &'a Node,
    /// The program.
    command: &'a Node,
    program: &'a str,
    /// The array of the arguments, if there is one.
    array: Option<&'a Node>,
    arguments: Vec<(&'a str, &'a Range<usize>)>,
    /// The variables that the file gives it.
    variables: Vec<&'a str>,
    /// The file from which it is given others.
    variables_file: Option<&'a str>,
    /// The member that should be an object of variables, and is none.
    wrong_variables: Option<&'static str>,
}

/// What replaces bytes of the text.
type Splice = (Range<usize>, String);

/// Puts `program wrap` before every command. A hand-off that is asked for, in milliseconds and 0 for never, changes the servers of earlier imports, too.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn wrap(text: &str, (host, import): (Host, &Import), program: &str) -> Result<RewrittenFile, String> {
    let handoff = import.handoff;
    let remote = |entry: &Node| match import.header.is_empty() || host.language() != Language::Json {
        true => None,
        false => wrap_url(text, entry, (host, import), program),
    };
    rewrite_with(text, host, remote, |start| {
        if let Some(at) = start.wrapped_at() {
            return start.with_handoff(host, at, handoff);
        }
        if is_longhaul(start.program) || start.program == program {
            return Err("it is Longhaul itself".into());
        }
        if let Some(member) = start.wrong_variables {
            return Err(
                format!("its `{member}` must be an object of variables, such as {{\"NAME\": \"value\"}}").into(),
            );
        }
        if let Some(right) = start.split_command_line(host) {
            return Err(
                format!("its `command` is a whole command line, and must be the program alone: {right}").into(),
            );
        }
        if let Some(name) = start.variables.iter().find(|name| !is_variable(name)) {
            return Err(format!("`--env` cannot name the variable {name:?} that the file gives it").into());
        }
        let options = options(import, start.variables_file);
        let mut words: Vec<&str> = options.iter().map(String::as_str).collect();
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

/// The options of `wrap` that an import gives to each server.
fn options(import: &Import, variables_file: Option<&str>) -> Vec<String> {
    // Below the limits of all hosts that were measured.
    let handoff = format_duration(import.handoff.unwrap_or(DEFAULT_HANDOFF));
    let mut words: Vec<String> = ["wrap", IMPORTED, "--handoff", &handoff].map(str::to_owned).into();
    // Which variables are in a file is not known here: its path tells its account from that of another.
    let name: Vec<&str> = import.name.as_deref().into_iter().chain(variables_file).collect();
    if !name.is_empty() {
        words.extend(["--name".to_owned(), name.join(" ")]);
    }
    words.extend(
        import
            .era
            .iter()
            .flat_map(|era| ["--era".to_owned(), era.word().to_owned()]),
    );
    words.extend(import.shared.then(|| "--shared".to_owned()));
    words
}

/// Has the host start `wrap` in place of a server at a URL. `None` if the entry is none.
fn wrap_url(text: &str, entry: &Node, (host, import): (Host, &Import), program: &str) -> Option<ReplacedEntry> {
    let url = URLS.iter().find_map(|member| entry.member(member)?.text())?;
    let mut words = options(import, None);
    words.extend([IMPORTED_ENTRY.to_owned(), text[entry.range.clone()].to_owned()]);
    let headers = entry.member("headers").map(Node::members).unwrap_or_default().iter();
    let headers = headers.filter_map(|(name, value)| Some(format!("{name}: {}", value.text()?)));
    let given = import
        .header
        .iter()
        .map(|Header { name, value }| format!("{name}: {value}"));
    words.extend(headers.chain(given).flat_map(|header| ["--header".to_owned(), header]));
    words.extend(["--".to_owned(), url.to_owned()]);
    let quote = |text: &str| quoted(text, Language::Json);
    let after: Vec<String> = [program.to_owned()].into_iter().chain(words).collect();
    let quoted_words: Vec<String> = after.iter().map(|word| quote(word)).collect();
    let (start, kind) = match host {
        Host::Opencode => (format!("\"command\": [{}]", quoted_words.join(", ")), "local"),
        _ => (
            format!(
                "\"command\": {}, \"args\": [{}]",
                quoted_words[0],
                quoted_words[1..].join(", ")
            ),
            "stdio",
        ),
    };
    let kept = entry.members().iter().filter_map(|(name, value)| match name.as_str() {
        "headers" => None,
        "type" => Some(format!("\"type\": \"{kind}\"")),
        name if URLS.contains(&name) => None,
        name => Some(format!("{}: {}", quote(name), &text[value.range.clone()])),
    });
    let members: Vec<String> = [start].into_iter().chain(kept).collect();
    Some(ReplacedEntry {
        splice: (entry.range.clone(), format!("{{{}}}", members.join(", "))),
        before: vec![url.to_owned()],
        after,
    })
}

/// Whether an import has put a server of the file behind Longhaul.
pub(super) fn has_imported(text: &str, host: Host) -> bool {
    let imported = rewrite(text, host, |start| match start.imported_at() {
        Some(_) => Ok((Vec::new(), Vec::new())),
        None => Err(NOT_IMPORTED.into()),
    });
    imported.is_ok_and(|rewritten| !rewritten.changed.is_empty())
}

/// Takes `longhaul wrap` away from every command that an import has put behind it.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn unwrap(text: &str, host: Host) -> Result<RewrittenFile, String> {
    rewrite(text, host, |start| {
        if start.wrapped_at().is_none() {
            return Err("it does not run behind Longhaul".into());
        }
        let mut words = start.arguments.iter().map(|(word, _)| *word);
        if words.any(|word| word == IMPORTED_ENTRY)
            && let (Some(entry), Some(url)) = (words.next(), words.next_back())
        {
            let entry = with_later_changes(entry, start.entry, text);
            return Ok((vec![(start.entry.range.clone(), entry)], vec![url.to_owned()]));
        }
        let at = start.imported_at().ok_or(NOT_IMPORTED)?;
        let (wrapped, _) = start.arguments[at];
        let (_, first) = start.arguments[0];
        let end = match (start.arguments.get(at + 1), start.array) {
            (Some((_, rest)), _) => rest.start,
            // With a comma behind the last one. A comment behind it was there before.
            (None, _) => {
                let behind = start.arguments[at].1.end;
                let rest = &text[behind..];
                let comma = rest.trim_start().strip_prefix(',').map(|left| rest.len() - left.len());
                behind + comma.unwrap_or_default()
            }
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
            return Err("there is a comment between its arguments: remove `longhaul wrap` by hand".into());
        }
        let program = quoted(wrapped, host.language());
        let after = start.arguments[at..].iter().map(|(argument, _)| (*argument).to_owned());
        Ok((
            vec![(start.command.range.clone(), program), (removed, String::new())],
            after.collect(),
        ))
    })
}

/// The text of an entry with a URL as it was before an import, with what the host or the user has changed of its other members since.
fn with_later_changes(before: &str, now: &Node, text: &str) -> String {
    let is_imports = |name: &str| ["command", "args", "type", "headers"].contains(&name) || URLS.contains(&name);
    let Ok(parsed) = Node::parse(before, Language::Json) else {
        return before.to_owned();
    };
    let texts = |members: &[(String, Node)], of: &str, imports: bool| -> Vec<(String, String)> {
        let wanted = members.iter().filter(|(name, _)| is_imports(name) == imports);
        wanted
            .map(|(name, value)| (name.clone(), of[value.range.clone()].to_owned()))
            .collect()
    };
    let others = texts(now.members(), text, false);
    if others == texts(parsed.members(), before, false) {
        return before.to_owned();
    }
    let members = texts(parsed.members(), before, true).into_iter().chain(others);
    let members: Vec<String> = members
        .map(|(name, value)| format!("{}: {value}", quoted(&name, Language::Json)))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// What [`wrap`] and [`unwrap`] make of a file together: all have `args` then, and the quotes of commands are of one kind.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn as_undone(text: &str, host: Host) -> Result<RewrittenFile, String> {
    rewrite(text, host, |start| {
        if start.wrapped_at().is_some() {
            return Err(NOT_IMPORTED.into());
        }
        let mut splices = vec![(start.command.range.clone(), quoted(start.program, host.language()))];
        if start.array.is_none() {
            splices.push(new_member(text, start.command, host.language(), "")?);
        }
        Ok((splices, Vec::new()))
    })
}

/// What a change makes of a start, or why it stays.
type Change = Result<(Vec<Splice>, Vec<String>), Cow<'static, str>>;

/// An entry that is written anew.
struct ReplacedEntry {
    splice: Splice,
    before: Vec<String>,
    after: Vec<String>,
}

/// Changes the servers that the host starts.
fn rewrite(text: &str, host: Host, change: impl Fn(&Start<'_>) -> Change) -> Result<RewrittenFile, String> {
    rewrite_with(text, host, |_| None, change)
}

/// The same, and writes the others anew for which `remote` has something.
fn rewrite_with(
    text: &str,
    host: Host,
    remote: impl Fn(&Node) -> Option<ReplacedEntry>,
    change: impl Fn(&Start<'_>) -> Change,
) -> Result<RewrittenFile, String> {
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
            if entry.member("command").is_none()
                && let Some(ReplacedEntry { splice, before, after }) = remote(entry)
            {
                splices.push(splice);
                changed.push(ChangedServer { name, before, after });
                continue;
            }
            let read = Start::read(entry).map_err(Cow::from);
            let rewritten = read.and_then(|start| Ok((change(&start)?, start)));
            match rewritten {
                Ok(((new, after), start)) => {
                    splices.extend(new);
                    let before = start.arguments.iter().map(|(argument, _)| *argument);
                    let before = [start.program].into_iter().chain(before);
                    changed.push(ChangedServer {
                        name,
                        before: before.map(str::to_owned).collect(),
                        after,
                    });
                }
                Err(why) => left.push(UnchangedServer { name, why }),
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
    Ok(RewrittenFile {
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
        let is_remote = URLS.iter().any(|member| entry.member(member).is_some());
        let Some(command) = entry.member("command") else {
            return Err(match is_remote {
                true => {
                    "it is not started by the host, but at a URL: --header puts it behind Longhaul, too; or let an entry in its place start `longhaul wrap -- URL`"
                }
                false => "it has no `command`",
            });
        };
        // opencode has program and arguments in one array.
        if let Value::Array(words) = &command.value {
            let words: Option<Vec<_>> = words.iter().map(|word| Some((word.text()?, word))).collect();
            let words = words.ok_or("its `command` is not an array of strings")?;
            let ((program, first), rest) = words.split_first().ok_or("its `command` is empty")?;
            let (given, wrong_variables) = variables(entry, "environment");
            return Ok(Self {
                wrong_variables,
                entry,
                command: first,
                program,
                array: Some(command),
                arguments: rest.iter().map(|(word, node)| (*word, &node.range)).collect(),
                variables: given.iter().map(|(name, _)| name.as_str()).collect(),
                variables_file: None,
            });
        }
        // Zed had program and arguments in an object.
        let whole = entry;
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
        let (given, wrong_variables) = variables(entry, "env");
        // Those that Codex passes on.
        let passed_on = entry.member("env_vars").map(Node::elements).unwrap_or_default();
        let variables = given.iter().map(|(name, _)| name.as_str());
        Ok(Self {
            entry: whole,
            wrong_variables,
            variables: variables.chain(passed_on.iter().filter_map(Node::text)).collect(),
            variables_file: entry.member("envFile").and_then(Node::text),
            command,
            program,
            array,
            arguments: arguments.ok_or("its `args` are not an array of strings")?,
        })
    }

    /// How a command line in place of the program should be written; `None` if the program is one.
    fn split_command_line(&self, host: Host) -> Option<String> {
        let words: Vec<&str> = self.program.split_whitespace().collect();
        let (program, rest) = words.split_first()?;
        // Quotes and variables are read by a shell. A program may have spaces in its name.
        let is_line = !rest.is_empty() && !self.program.contains(['"', '\'', '$', '\\', '~', '\n']);
        if !is_line || Path::new(self.program).exists() || program.starts_with("./") {
            return None;
        }
        let is_array = self
            .array
            .is_some_and(|array| array.range.contains(&self.command.range.start));
        let given = self.arguments.iter().map(|(argument, _)| *argument);
        let list = |words: Vec<&str>| {
            let words: Vec<String> = words.iter().map(|word| quoted(word, host.language())).collect();
            words.join(", ")
        };
        let rest: Vec<&str> = rest.iter().copied().chain(given).collect();
        Some(match (is_array, host.language()) {
            (true, _) => format!("\"command\": [{}]", list([&[*program], &rest[..]].concat())),
            (false, Language::Json) => format!("\"command\": {}, \"args\": [{}]", list(vec![program]), list(rest)),
            (false, Language::Toml) => format!("command = {}, args = [{}]", list(vec![program]), list(rest)),
        })
    }

    /// Which argument is the wrapped program.
    fn wrapped_at(&self) -> Option<usize> {
        let words: Vec<&str> = self.arguments.iter().map(|(word, _)| *word).collect();
        let options = words.strip_prefix(&["wrap"])?;
        let end = options.iter().position(|word| *word == "--")?;
        // The program may have any name: that of a version, for example.
        if !is_longhaul(self.program) && !options[..end].contains(&IMPORTED) {
            return None;
        }
        let at = end + 2;
        (at < words.len()).then_some(at)
    }

    /// The same, if an import has put it behind Longhaul.
    fn imported_at(&self) -> Option<usize> {
        let at = self.wrapped_at()?;
        let options = &self.arguments[..at - 1];
        options.iter().any(|(word, _)| *word == IMPORTED).then_some(at)
    }

    /// Gives an entry with `wrap` another hand-off. `at` is the argument that is the wrapped program.
    fn with_handoff(&self, host: Host, at: usize, asked: Option<Millis>) -> Change {
        self.imported_at().ok_or(NOT_IMPORTED)?;
        let asked = asked.ok_or(UNCHANGED)?;
        // A value stands behind it, and `--` behind that.
        let option = self.arguments[..at - 2]
            .iter()
            .position(|(word, _)| *word == "--handoff");
        let present = option.map(|option| self.arguments[option + 1].0);
        if present.map_or(Some(DEFAULT_HANDOFF), |present| parse_duration(present).ok()) == Some(asked) {
            return Err(UNCHANGED.into());
        }
        let mut after: Vec<String> = self.arguments.iter().map(|(word, _)| (*word).to_owned()).collect();
        let new = format_duration(asked);
        let splice = match option {
            Some(option) => {
                after[option + 1].clone_from(&new);
                (self.arguments[option + 1].1.clone(), quoted(&new, host.language()))
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

/// The variables in a member of an entry. Beside them its name, if it is a list or a text.
fn variables<'a>(entry: &'a Node, member: &'static str) -> (&'a [(String, Node)], Option<&'static str>) {
    let Some(node) = entry.member(member) else {
        return (&[], None);
    };
    let is_wrong = matches!(node.value, Value::Array(_) | Value::Text(_));
    (node.members(), is_wrong.then_some(member))
}

/// Whether `--env` can name it.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(['=', '\0'])
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
