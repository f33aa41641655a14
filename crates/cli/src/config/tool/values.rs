//! What the values of a tool's properties can be, as far as its schema says so.

use crate::config::tool::schema::{property_names, resolve, types};
use longhaul_command::HarmlessValues;
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use serde_json::Value;
use std::collections::BTreeSet;

/// The properties whose values may stand in scripts.
pub(crate) fn harmless(input_schema: &Value) -> HarmlessValues {
    let properties = || property_names(input_schema).into_iter();
    let chosen = |test: fn(&Value) -> bool| {
        let is_chosen = |name: &&str| test(resolve(input_schema, &input_schema["properties"][*name]));
        properties().filter(is_chosen).map(str::to_owned).collect()
    };
    HarmlessValues {
        fixed: chosen(is_fixed),
        words: chosen(is_word),
    }
}

/// The properties whose numbers are integers, or those of their elements.
pub(crate) fn integers(input_schema: &Value) -> BTreeSet<String> {
    let has_integers = |name: &&str| {
        let property = &input_schema["properties"][*name];
        let elements = &resolve(input_schema, property)["items"];
        is_integer(input_schema, property, MOST_NESTED) || is_integer(input_schema, elements, MOST_NESTED)
    };
    let names = property_names(input_schema).into_iter();
    names.filter(has_integers).map(str::to_owned).collect()
}

/// Nobody nests alternatives more deeply.
const MOST_NESTED: usize = 8;

/// Whether every number that the schema accepts is an integer, and it accepts one.
fn is_integer(root: &Value, schema: &Value, levels: usize) -> bool {
    let schema = resolve(root, schema);
    let types = types(schema);
    if !types.is_empty() {
        return types.contains(&"integer") && !types.contains(&"number");
    }
    if let Some(choices) = schema["enum"].as_array() {
        let mut numbers = choices.iter().filter(|choice| choice.is_number()).peekable();
        return numbers.peek().is_some()
            && numbers.all(|number| number.as_f64().is_some_and(|number| number.fract() == 0.0));
    }
    let alternatives = |key: &str| schema[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_inner = |schema: &Value| levels > 0 && is_integer(root, schema, levels - 1);
    // `{ type = "null" }` has no other type.
    let has_number = |schema: &&Value| !(schema["type"] == "null" || is_without_numbers(resolve(root, schema)));
    ["anyOf", "oneOf"].iter().any(|key| {
        let mut with_numbers = alternatives(key).iter().filter(has_number).peekable();
        with_numbers.peek().is_some() && with_numbers.all(is_inner)
    }) || alternatives("allOf").iter().any(is_inner)
}

fn is_without_numbers(schema: &Value) -> bool {
    let types = types(schema);
    !types.is_empty() && !types.iter().any(|kind| ["integer", "number"].contains(kind))
}

/// One of some texts without characters of a shell, a number or a boolean.
fn is_fixed(schema: &Value) -> bool {
    let is_harmless = |value: &Value| match value {
        Value::String(text) => text.chars().all(is_plain),
        value => !value.is_array() && !value.is_object(),
    };
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().all(is_harmless);
    }
    if let Some(only) = schema.get("const") {
        return is_harmless(only);
    }
    let types = types(schema);
    !types.is_empty() && types.iter().all(|kind| ["integer", "number", "boolean"].contains(kind))
}

fn is_word(schema: &Value) -> bool {
    let pattern = schema["pattern"].as_str().filter(|_| types(schema) == ["string"]);
    pattern.is_some_and(matches_words_only)
}

/// A character that no shell gives a meaning.
fn is_plain(char: char) -> bool {
    char.is_alphanumeric() || "_-./:,+@%".contains(char)
}

/// Whether all that the pattern matches is one word of plain ASCII that does not begin with `-`. In doubt it is not.
fn matches_words_only(pattern: &str) -> bool {
    let Ok(hir) = regex_syntax::parse(pattern) else {
        return false;
    };
    let HirKind::Concat(parts) = hir.kind() else {
        return false;
    };
    let is_look = |part: Option<&Hir>, look| part.is_some_and(|part| *part.kind() == HirKind::Look(look));
    is_look(parts.first(), Look::Start)
        && is_look(parts.last(), Look::End)
        && parts[1..parts.len() - 1].iter().all(holds_plain_only)
        && !may_begin_with_dash(&hir)
        && hir.properties().minimum_len().is_some_and(|least| least > 0)
}

fn holds_plain_only(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty => true,
        HirKind::Literal(literal) => {
            std::str::from_utf8(&literal.0).is_ok_and(|text| text.is_ascii() && text.chars().all(is_plain))
        }
        HirKind::Class(Class::Unicode(class)) => class.iter().all(|range| {
            // Digits and letters of other scripts are written by `\d` and `\w`, too.
            let (start, end) = (range.start(), range.end());
            (start..=end.min('\u{7f}')).all(is_plain) && (end.is_ascii() || is_lettered(start.max('\u{80}'), end))
        }),
        HirKind::Class(Class::Bytes(class)) => class
            .iter()
            .all(|range| range.end().is_ascii() && (range.start()..=range.end()).all(|byte| is_plain(byte.into()))),
        HirKind::Look(_) => true,
        HirKind::Repetition(repetition) => holds_plain_only(&repetition.sub),
        HirKind::Capture(capture) => holds_plain_only(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(holds_plain_only),
    }
}

/// A range that `\w` or `\d` has; `.` and negated classes have longer ones.
fn is_lettered(start: char, end: char) -> bool {
    /// No script has a longer one; unified ideographs have this many.
    const LONGEST: u32 = 45_000;
    u32::from(end) - u32::from(start) <= LONGEST && !(start..=end).any(|char| char.is_whitespace() || char.is_control())
}

/// Whether a match can begin with `-`. Anchors are passed over.
fn may_begin_with_dash(hir: &Hir) -> bool {
    begins_with_dash(hir).0
}

/// Whether a match can begin with `-`, and whether it can be empty.
fn begins_with_dash(hir: &Hir) -> (bool, bool) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => (false, true),
        HirKind::Literal(literal) => (literal.0.starts_with(b"-"), false),
        HirKind::Class(Class::Unicode(class)) => (
            class.iter().any(|range| (range.start()..=range.end()).contains(&'-')),
            false,
        ),
        HirKind::Class(Class::Bytes(class)) => (
            class.iter().any(|range| (range.start()..=range.end()).contains(&b'-')),
            false,
        ),
        HirKind::Repetition(repetition) => {
            let (dash, empty) = begins_with_dash(&repetition.sub);
            (dash, empty || repetition.min == 0)
        }
        HirKind::Capture(capture) => begins_with_dash(&capture.sub),
        HirKind::Concat(parts) => {
            for part in parts {
                let (dash, empty) = begins_with_dash(part);
                if dash || !empty {
                    return (dash, false);
                }
            }
            (false, true)
        }
        HirKind::Alternation(parts) => parts
            .iter()
            .map(begins_with_dash)
            .fold((false, false), |all, one| (all.0 || one.0, all.1 || one.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integers_are_found_wherever_a_schema_says_so() {
        for (schema, expected) in [
            (json!({"type": "integer"}), true),
            (json!({"type": ["integer", "null"]}), true),
            (json!({"type": ["integer", "string"]}), true),
            (json!({"type": ["integer", "number"]}), false),
            (json!({"type": "number"}), false),
            (json!({"type": "string"}), false),
            (json!({"$ref": "#/$defs/i"}), true),
            (json!({"type": "array", "items": {"$ref": "#/$defs/i"}}), true),
            (
                json!({"type": ["array", "null"], "items": {"type": ["integer", "null"]}}),
                true,
            ),
            (json!({"type": "array", "items": {"type": "number"}}), false),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), true),
            (json!({"oneOf": [{"$ref": "#/$defs/i"}, {"type": "string"}]}), true),
            (json!({"anyOf": [{"type": "integer"}, {"type": "number"}]}), false),
            (json!({"anyOf": [{"type": "integer"}, {}]}), false),
            (json!({"allOf": [{"type": "integer"}, {"minimum": 1}]}), true),
            (json!({"enum": [1, 2, null]}), true),
            (json!({"enum": [1, 2.5]}), false),
            (json!({"enum": ["a"]}), false),
            (json!({}), false),
        ] {
            let root = json!({"properties": {"x": schema}, "$defs": {"i": {"type": "integer"}}});
            assert_eq!(integers(&root).contains("x"), expected, "{schema}");
        }
    }

    #[test]
    fn values_that_cannot_hold_what_a_shell_reads_are_told_from_others() {
        for (schema, fixed, word) in [
            (json!({"enum": ["all", "test"]}), true, false),
            (json!({"enum": ["all", null]}), true, false),
            (json!({"enum": ["all", "a; b"]}), false, false),
            (json!({"enum": ["all", "$HOME"]}), false, false),
            (json!({"enum": ["a", ["b"]]}), false, false),
            (json!({"const": "x"}), true, false),
            (json!({"type": "integer"}), true, false),
            (json!({"type": ["number", "null"]}), true, false),
            (json!({"type": ["integer", "string"]}), false, false),
            (json!({"type": "boolean"}), true, false),
            (json!({"type": "string"}), false, false),
            (json!({}), false, false),
            (json!({"type": "string", "pattern": "^[a-z][a-z0-9_.-]*$"}), false, true),
            (json!({"type": "string", "pattern": r"^\w+(/\w+)*$"}), false, true),
            (json!({"type": "string", "pattern": "^(dev|prod)$"}), false, true),
            // An array passes.
            (json!({"pattern": "^[a-z]+$"}), false, false),
            (json!({"type": "string", "pattern": "[a-z]+"}), false, false),
            (json!({"type": "string", "pattern": "^[a-z]+"}), false, false),
            (json!({"type": "string", "pattern": "^a|b$"}), false, false),
            (json!({"type": "string", "pattern": "^[a-z]*$"}), false, false),
            (json!({"type": "string", "pattern": "^[a-z-]+$"}), false, false),
            (json!({"type": "string", "pattern": "^a?-x$"}), false, false),
            (json!({"type": "string", "pattern": "^.+$"}), false, false),
            (json!({"type": "string", "pattern": "^[^;]+$"}), false, false),
            (json!({"type": "string", "pattern": r"^\S+$"}), false, false),
            (json!({"type": "string", "pattern": "^[a-z =]+$"}), false, false),
            (json!({"type": "string", "pattern": "(?m)^[a-z]+$"}), false, false),
        ] {
            let harmless = harmless(&json!({"properties": {"x": schema}}));
            assert_eq!(
                (harmless.fixed.contains("x"), harmless.words.contains("x")),
                (fixed, word),
                "{schema}"
            );
        }
    }
}
