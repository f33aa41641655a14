//! Looks at a schema before it is compiled: what it has, and the same with its references guarded.

use crate::{SchemaError, SchemaProblem, guard};
use serde_json::{Map, Value, json};

/// How deep a schema may be nested.
const DEEPEST: usize = 100;
/// How many references a schema may have. They may lead one to the next, each deeper in the stack.
const MOST_REFERENCES: usize = 1_000;
/// How deep `unevaluatedProperties` and `unevaluatedItems` may be nested: each level multiplies the time of a check by three.
const MOST_UNEVALUATED: usize = 4;

/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// The values of these keywords are data, not schemas.
const DATA: [&str; 6] = [
    "const",
    "enum",
    "default",
    "examples",
    "dependentRequired",
    "$vocabulary",
];
/// The members of these keywords have names of the author's, which are no keywords.
const NAMED: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// What a schema has.
#[derive(Default)]
pub(crate) struct Survey {
    /// Its values.
    pub(crate) nodes: usize,
    /// Its patterns, each with its place.
    pub(crate) patterns: Vec<(String, String)>,
    references: usize,
    /// The first reference that does not begin with `#`, with its place.
    pub(crate) outside: Option<(String, String)>,
    /// Whether a violation may list those of many alternatives.
    pub(crate) has_alternatives: bool,
}

impl Survey {
    /// # Errors
    /// [`SchemaError`] if a limit is exceeded.
    pub(crate) fn of(schema: &Value) -> Result<Self, SchemaError> {
        let mut survey = Self::default();
        survey.visit(schema, "", 0, 0)?;
        Ok(survey)
    }

    /// Whether a check may take longer than the schema and the value are large.
    pub(crate) fn has_references(&self) -> bool {
        self.references > 0
    }

    fn visit(&mut self, schema: &Value, place: &str, depth: usize, unevaluated: usize) -> Result<(), SchemaError> {
        let fault = |problem| {
            Err(SchemaError {
                place: place.to_owned(),
                problem,
            })
        };
        self.nodes += 1;
        if depth > DEEPEST {
            return fault(SchemaProblem::TooDeep(DEEPEST));
        }
        match schema {
            Value::Object(members) => self.visit_members(members, place, depth, unevaluated),
            Value::Array(elements) => elements.iter().enumerate().try_for_each(|(index, element)| {
                self.visit(element, &format!("{place}/{index}"), depth + 1, unevaluated)
            }),
            _ => Ok(()),
        }
    }

    fn visit_members(
        &mut self,
        members: &Map<String, Value>,
        place: &str,
        depth: usize,
        unevaluated: usize,
    ) -> Result<(), SchemaError> {
        let unevaluated = unevaluated + usize::from(members.keys().any(|key| key.starts_with("unevaluated")));
        if unevaluated > MOST_UNEVALUATED {
            return Err(SchemaError {
                place: place.to_owned(),
                problem: SchemaProblem::TooManyUnevaluated(MOST_UNEVALUATED),
            });
        }
        for (key, value) in members {
            let place = format!("{place}/{}", escape(key));
            match (key.as_str(), value) {
                (key, Value::String(reference)) if REFERENCES.contains(&key) => {
                    self.references += 1;
                    if self.references > MOST_REFERENCES {
                        return Err(SchemaError {
                            place,
                            problem: SchemaProblem::TooManyReferences(MOST_REFERENCES),
                        });
                    }
                    if !reference.starts_with('#') && self.outside.is_none() {
                        self.outside = Some((place, reference.clone()));
                    }
                }
                ("pattern", Value::String(pattern)) => self.patterns.push((place, pattern.clone())),
                (key, value) if DATA.contains(&key) => self.nodes += count(value),
                (key, Value::Object(named)) if NAMED.contains(&key) => {
                    for (name, schema) in named {
                        let place = format!("{place}/{}", escape(name));
                        if key == "patternProperties" {
                            self.patterns.push((place.clone(), name.clone()));
                        }
                        self.visit(schema, &place, depth + 2, unevaluated)?;
                    }
                }
                (key, value) => {
                    self.has_alternatives |= ["anyOf", "oneOf"].contains(&key);
                    self.visit(value, &place, depth + 1, unevaluated)?;
                }
            }
        }
        Ok(())
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(members) => members.values().map(count).sum(),
        Value::Array(elements) => elements.iter().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// A name as a part of a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The schema with a [guard] before each reference. Without `ref_has_siblings` (up to draft 7) what stands beside a `$ref` does not count.
pub(crate) fn guarded(schema: &Value, ref_has_siblings: bool) -> Value {
    let inner = |schema: &Value| guarded(schema, ref_has_siblings);
    match schema {
        Value::Array(elements) => elements.iter().map(inner).collect(),
        Value::Object(members) => {
            let is_reference = |key: &str, value: &Value| REFERENCES.contains(&key) && value.is_string();
            let stands_alone = !ref_has_siblings && members.get("$ref").is_some_and(Value::is_string);
            let mut all = Vec::new();
            let mut replaced = Map::new();
            for (key, value) in members {
                match key.as_str() {
                    key if is_reference(key, value) => all.extend([json!({guard::KEYWORD: true}), json!({key: value})]),
                    key if DATA.contains(&key) => drop(replaced.insert(key.to_owned(), value.clone())),
                    key if NAMED.contains(&key) && value.is_object() => {
                        let named = value.as_object().into_iter().flatten();
                        let named: Map<_, _> = named.map(|(name, schema)| (name.clone(), inner(schema))).collect();
                        replaced.insert(key.to_owned(), named.into());
                    }
                    key => drop(replaced.insert(key.to_owned(), inner(value))),
                }
            }
            if stands_alone {
                replaced.retain(|key, _| ["$schema", "definitions", "$defs"].contains(&key.as_str()));
            }
            if !all.is_empty() {
                // If it is no array, this is no schema, and does not compile.
                if let Value::Array(conditions) = replaced.entry("allOf").or_insert_with(|| json!([])) {
                    conditions.append(&mut all);
                }
            }
            replaced.into()
        }
        other => other.clone(),
    }
}
