//! What a tool's section may say and hardly means.

use crate::config::{
    section::{Entry, Section},
    tool::schema::{declaration, may_be_absent, property_names, resolve, types},
    variables::mask_variables,
};
use longhaul_command::{
    CommandElement, CommandWord, ElementPart, Template, ValueForm, command_words, reads_stdin_as_code, script_words,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Operators of a shell that are hardly meant for an argument. `;` ends the `-exec` of find.
const OPERATORS: [&str; 11] = ["|", "||", "&&", "&", ">", ">>", "<", "<<", "2>", "2>&1", "&>"];
/// Programs for which some of these are arguments.
const CALCULATORS: [&str; 3] = ["expr", "test", "["];
/// Programs that take patterns themselves.
const PATTERN_READERS: [&str; 14] = [
    "find", "fd", "grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "rsync", "tar", "zip", "unzip", "git",
];

/// Keywords of schemas, each with the type whose values alone it binds.
const BINDS: [(&str, &str); 17] = [
    ("pattern", "string"),
    ("minLength", "string"),
    ("maxLength", "string"),
    ("format", "string"),
    ("minimum", "number"),
    ("maximum", "number"),
    ("exclusiveMinimum", "number"),
    ("exclusiveMaximum", "number"),
    ("multipleOf", "number"),
    ("items", "array"),
    ("minItems", "array"),
    ("maxItems", "array"),
    ("uniqueItems", "array"),
    ("properties", "object"),
    ("required", "object"),
    ("additionalProperties", "object"),
    ("minProperties", "object"),
];

/// The formats that are checked.
const FORMATS: [&str; 19] = [
    "date",
    "date-time",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "uuid",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// Warns about the words of a command that its program gets as they stand, and about options that may lose their value.
pub(crate) fn check_command(entry: &Entry<'_>, command: &[CommandElement], input_schema: Option<&Value>) {
    let elements = entry.elements("an array of strings").unwrap_or_default();
    let words = command_words(command);
    let scripts = script_words(command);
    let program = words[0].text.rsplit('/').next().unwrap_or_default();
    let plain = || words.iter().enumerate().filter(|(index, _)| !scripts.contains(index));
    for (index, word) in plain() {
        let Some(element) = elements.get(word.element) else {
            continue;
        };
        let text = word.text;
        let is_value = index > 0 && words[index - 1].text.starts_with('-') && words[index - 1].text != "--";
        let reads_patterns = is_value || PATTERN_READERS.contains(&program);
        if let Some(literal) = unreplaced(text).or_else(|| glob(text).filter(|_| !reads_patterns)) {
            element.warn(format!(
                "`command`: `{literal}` is passed as it stands, since no shell reads the command: write the value itself, or [\"sh\", \"-c\", \"…\"]"
            ));
        } else if (OPERATORS.contains(&text) || has_operator(text)) && !CALCULATORS.contains(&program) {
            element.warn(format!(
                "`command`: `{text}` is passed to {program} as an argument, since no shell reads the command: for this write [\"sh\", \"-c\", \"…\"]"
            ));
        }
    }
    let Some(input_schema) = input_schema else { return };
    for (index, value) in plain().skip(1) {
        let option = words[index - 1];
        if index > 1
            && let Some(element) = elements.get(value.element)
            && let Some(lost) = lost_value(command, option, *value, input_schema)
        {
            element.warn(format!("`command`: {lost}"));
        }
        let Some((option, name)) = joined_option(value.text) else {
            continue;
        };
        let is_last = index + 1 == words.len();
        let is_behind_end = words[..index].iter().any(|word| word.text == "--");
        if !is_last
            && !is_behind_end
            && may_be_empty_text(input_schema, name)
            && let Some(element) = elements.get(value.element)
        {
            element.warn(format!(
                "`command`: `{name}` may be an empty text, and then `{option}`, if it is an option with a value, takes the next argument for it: set `minLength = 1`"
            ));
        }
    }
}

/// What to say of an option whose value, the next word, may be missing.
fn lost_value(
    command: &[CommandElement],
    option: CommandWord<'_>,
    value: CommandWord<'_>,
    input_schema: &Value,
) -> Option<String> {
    let text = option.text;
    let is_option = text.len() > 1 && text.starts_with('-') && text != "--" && !text.contains(['=', '{']);
    let is_list = value.part == ElementPart::Group;
    let is_same_element = option.element == value.element;
    // A list stands or falls as a whole, and the parts of a switch exclude each other.
    let is_apart = match value.part {
        ElementPart::Then | ElementPart::Else => !is_same_element || option.part != value.part,
        ElementPart::Group => is_same_element,
        ElementPart::Whole => false,
    };
    // What begins with `-` is another option.
    if !is_option || is_apart || value.text.starts_with('-') {
        return None;
    }
    let all = command[value.element].parts();
    let texts = all.iter().map(|(_, text)| *text).filter(|_| is_list);
    let templates: Vec<Template> = texts
        .chain([value.text])
        .filter_map(|text| Template::parse(text).ok())
        .collect();
    let mut placeholders = templates.iter().flat_map(Template::placeholders);
    let list = format!("[{text:?}, {:?}]", value.text);
    placeholders.find_map(|placeholder| {
        let name = placeholder.name;
        let takes = format!("and then `{text}`, if it is an option with a value, takes the next argument for it");
        if may_be_absent(input_schema, name) {
            return Some(format!(
                "`{name}` may be absent, {takes}: write the list {list}, which is left out with it"
            ));
        }
        let is_spread = placeholder.form == ValueForm::Word && (placeholder.is_whole || is_list);
        (is_spread && may_be_empty(input_schema, name)).then(|| {
            format!(
                "`{name}` may be an empty array, {takes}: write the list {list}, which repeats `{text}` for each element, or set `minItems = 1`"
            )
        })
    })
}

/// An option of letters that stands before its value in one element, with the property that is the value.
fn joined_option(text: &str) -> Option<(&str, &str)> {
    let (option, rest) = text.split_once('{')?;
    let name = rest.strip_suffix('}')?;
    let letters = option.strip_prefix('-')?;
    let is_option = !letters.is_empty() && letters.bytes().all(|letter| letter.is_ascii_alphabetic());
    (is_option && !name.contains(['{', '}'])).then_some((option, name))
}

/// Warns about a standard input that looks as if a shell replaced something in it.
pub(crate) fn check_stdin(entry: &Entry<'_>, command: &[CommandElement], stdin: &str) {
    if let Some(literal) = unreplaced(stdin).filter(|_| !reads_stdin_as_code(command)) {
        entry.warn(format!(
            "`stdin`: `{literal}` is passed as it stands, since nothing is replaced in it but placeholders: write the value itself"
        ));
    }
}

/// Warns about properties that the command does not get.
pub(crate) fn check_unused(section: &Section<'_>, input_schema: &Value, command: &[CommandElement], others: &[&str]) {
    let words = command_words(command).into_iter().skip(1);
    let texts = words.map(|word| word.text).chain(others.iter().copied());
    let templates: Vec<Template> = texts.filter_map(|text| Template::parse(text).ok()).collect();
    let conditions = command.iter().filter_map(|element| match element {
        CommandElement::Switch(switch) => Some(switch.property.as_str()),
        _ => None,
    });
    let used: BTreeSet<&str> = templates
        .iter()
        .flat_map(Template::properties)
        .chain(conditions)
        .collect();
    for name in property_names(input_schema).difference(&used) {
        let message =
            format!("`{name}` is used by none of `command`, `stdin`, `env` and `cwd`, so the command does not get it");
        warn_at(section, name, &message);
    }
}

/// Warns about values of `env` that look as if something else than `${VAR}` were replaced in them. They may be secret, and are not shown.
pub(crate) fn check_env(entry: &Entry<'_>) {
    for (_, entry) in entry.pairs("a table of strings").unwrap_or_default() {
        let masked = entry.text_if_any().and_then(|value| mask_variables(value).ok());
        let literal = masked.as_deref().and_then(unreplaced);
        // Doubled braces are meant to stand.
        if let Some(literal) = literal.filter(|literal| !literal.starts_with("${")) {
            let instead = match literal.strip_prefix('$') {
                Some(name) if !name.starts_with('(') => format!("write `${{{name}}}`"),
                _ if literal == "~" => "write `${HOME}`".to_owned(),
                _ => "write the value itself".to_owned(),
            };
            entry.warn(format!(
                "`{}`: `{literal}` is passed as it stands, since no shell reads it: {instead}",
                entry.key()
            ));
        }
    }
}

/// Warns about what the schemas of a tool's properties let pass.
pub(crate) fn check_schemas(section: &Section<'_>, input_schema: &Value) {
    let properties = input_schema["properties"].as_object();
    for (name, schema) in properties.into_iter().flatten() {
        let mut found = Vec::new();
        unbound(schema, false, "", &mut found);
        for (place, message) in found {
            warn_at(section, name, &format!("`{name}`{place}: {message}"));
        }
    }
}

/// Warns where a property is declared.
fn warn_at(section: &Section<'_>, name: &str, message: &str) {
    if let Some((key, entry)) = declaration(section, name) {
        entry.warn(format!("`{key}`: {message}"));
    }
}

/// Whether an argument with the elements of this property may be none at all.
fn may_be_empty(input_schema: &Value, name: &str) -> bool {
    let property = resolve(input_schema, &input_schema["properties"][name]);
    types(property) == ["array"] && property["minItems"].as_u64().unwrap_or(0) == 0
}

/// Whether a property may be a text without a letter, which an option and its value in one element end in.
fn may_be_empty_text(input_schema: &Value, name: &str) -> bool {
    let property = resolve(input_schema, &input_schema["properties"][name]);
    let is_bound = ["pattern", "format", "enum", "const"]
        .iter()
        .any(|key| property.get(key).is_some());
    types(property) == ["string"] && !is_bound && property["minLength"].as_u64().unwrap_or(0) == 0
}

/// File names that a shell would look for.
fn glob(text: &str) -> Option<&str> {
    let is_of_path = |char: char| char.is_ascii_alphanumeric() || "._-/*?".contains(char);
    (text.contains('*') && !text.starts_with('-') && text.chars().all(is_of_path)).then_some(text)
}

/// Whether a shell would take a part of the text for an operator: a redirection at its beginning, `&` at its end, or one between two words.
fn has_operator(text: &str) -> bool {
    let is_of_word = |char: char| char.is_ascii_alphanumeric() || "._-/".contains(char);
    let is_word = |text: &str| !text.is_empty() && !text.starts_with('-') && text.chars().all(is_of_word);
    let redirected = ["2>>", "2>", "&>", ">>", ">", "<"]
        .iter()
        .find_map(|operator| text.strip_prefix(operator));
    let separated = ["&&", "||", ";"].iter().find_map(|operator| text.split_once(operator));
    redirected.is_some_and(is_word)
        || text.strip_suffix(['&', ';']).is_some_and(is_word)
        || separated.is_some_and(|(one, other)| is_word(one) && is_word(other))
}

/// What a shell would replace: a variable in capitals, a command in `$(…)` or backquotes, or a home at the beginning.
fn unreplaced(text: &str) -> Option<&str> {
    if text == "~" || text.starts_with("~/") {
        return Some("~");
    }
    if let Some(command) = between(text, "$(", ')').or_else(|| between(text, "`", '`')) {
        return Some(command);
    }
    text.match_indices('$').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let (open, name) = match rest.strip_prefix('{') {
            // In a template braces are doubled.
            Some(rest) => (
                1 + rest.len() - rest.trim_start_matches('{').len(),
                rest.trim_start_matches('{'),
            ),
            None => (0, rest),
        };
        let is_name = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
        let length = name.find(|char| !is_name(char)).unwrap_or(name.len());
        let begins = name.starts_with(|char: char| char.is_ascii_uppercase() || char == '_');
        let closes = name[length..].bytes().take_while(|byte| *byte == b'}').count();
        (begins && closes >= open.min(1)).then(|| &text[at..at + 1 + open + length + closes.min(open)])
    })
}

/// A command within these, with them. One behind a space may be a name in another language.
fn between<'a>(text: &'a str, open: &str, close: char) -> Option<&'a str> {
    let begin = text.find(open)?;
    let inner = begin + open.len();
    let end = inner + text[inner..].find(close)?;
    let is_command = text[inner..end].starts_with(|char: char| char.is_ascii_lowercase());
    let is_one_word = !text[..begin].contains(char::is_whitespace);
    (is_command && is_one_word).then(|| &text[begin..=end])
}

/// Finds keywords that bind values of a type that the schema does not ask for, and formats that nobody checks. `typed`: what is around it names a type.
fn unbound(schema: &Value, typed: bool, place: &str, found: &mut Vec<(String, String)>) {
    let Some(members) = schema.as_object() else { return };
    let alternatives = |key: &str| members.get(key).and_then(Value::as_array).into_iter().flatten();
    let names_type = |schema: &Value| {
        ["type", "enum", "const", "$ref"]
            .iter()
            .any(|key| schema.get(key).is_some())
    };
    let all_name_types = |key| alternatives(key).count() > 0 && alternatives(key).all(names_type);
    let typed = typed
        || names_type(schema)
        || alternatives("allOf").any(names_type)
        || all_name_types("anyOf")
        || all_name_types("oneOf");
    if !typed && let Some((key, kind)) = BINDS.iter().find(|(key, _)| members.contains_key(*key)) {
        let others = if *kind == "array" { "a text" } else { "an array" };
        found.push((
            place.to_owned(),
            format!("`{key}` binds values of the type {kind} only, and without `type` {others} passes: add type = \"{kind}\""),
        ));
    }
    if let Some(format) = members
        .get("format")
        .and_then(Value::as_str)
        .filter(|format| !FORMATS.contains(format))
    {
        found.push((
            place.to_owned(),
            format!("the format `{format}` is not known, so it is not checked"),
        ));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for one in alternatives(key) {
            unbound(one, typed, place, found);
        }
    }
    if let Some(items) = members.get("items") {
        unbound(items, false, &format!("{place}.items"), found);
    }
    let inner = members.get("properties").and_then(Value::as_object);
    for (name, property) in inner.into_iter().flatten() {
        unbound(property, false, &format!("{place}.{name}"), found);
    }
}
