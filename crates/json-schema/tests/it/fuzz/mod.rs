//! A fuzz target: any schema and any value. See `cargo xtask fuzz`.

use bolero::{Driver, TypeGenerator};
use longhaul_json_schema::{Schema, SchemaAuthor, text_len};
use serde_json::{Map, Value, json};

/// Random cases in a test run.
const CHANCES: usize = 250;

/// A schema and a value; both use few names, so that they have to do with each other.
#[derive(Debug, Clone)]
struct Case {
    schema: Value,
    value: Value,
}

impl TypeGenerator for Case {
    fn generate<D: Driver>(driver: &mut D) -> Option<Self> {
        let mut schema = schema(driver, 0)?;
        if let Some(root) = schema.as_object_mut() {
            let definitions = NAMES
                .iter()
                .map(|name| Some(((*name).to_owned(), self::schema(driver, 1)?)));
            root.insert(
                "definitions".to_owned(),
                definitions.collect::<Option<Map<_, _>>>()?.into(),
            );
            if driver.produce()? {
                root.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
            }
        }
        Some(Self {
            schema,
            value: value(driver, 0)?,
        })
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const KEYWORDS: [&str; 8] = [
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
];
const PATTERNS: [&str; 10] = [
    "^a",
    "(a|b)+$",
    "(?=a)",
    r"(a)\1",
    r"\p{L}{9}",
    "[",
    r"\d{1,99}",
    ".{3,}",
    r"\bb\b",
    "^[^a]*$",
];
const TEXTS: [&str; 6] = ["", "a", "abba", "b b", "12345678901234567890", "é\u{0}"];

fn of<'a, D: Driver>(driver: &mut D, choices: &[&'a str]) -> Option<&'a str> {
    Some(choices[usize::from(driver.produce::<u8>()?) % choices.len()])
}

fn schema<D: Driver>(driver: &mut D, depth: usize) -> Option<Value> {
    if depth > 5 {
        return Some(json!({}));
    }
    let mut members = Map::new();
    for _ in 0..driver.produce::<u8>()? % 4 {
        let inner = |driver: &mut D| schema(driver, depth + 1);
        let (key, member) = match driver.produce::<u8>()? % 14 {
            0 => (
                "type",
                json!(of(driver, &["string", "object", "array", "integer", "null", "strin"])?),
            ),
            1 => ("pattern", json!(of(driver, &PATTERNS)?)),
            2 => ("patternProperties", json!({of(driver, &PATTERNS)?: inner(driver)?})),
            3 | 4 => ("$ref", json!(format!("#/definitions/{}", of(driver, &NAMES)?))),
            5 => ("$ref", json!(of(driver, &["#", "#/properties/a", "a.json", "#a"])?)),
            6 => (
                "properties",
                json!({of(driver, &NAMES)?: inner(driver)?, of(driver, &NAMES)?: inner(driver)?}),
            ),
            7 => (
                of(driver, &["allOf", "anyOf", "oneOf"])?,
                json!([inner(driver)?, inner(driver)?]),
            ),
            8 => (
                of(driver, &["unevaluatedProperties", "unevaluatedItems"])?,
                json!(driver.produce::<bool>()?),
            ),
            9 => ("enum", json!([value(driver, 3)?])),
            10 => ("required", json!([of(driver, &NAMES)?])),
            11 => (
                of(driver, &["minLength", "maximum", "maxItems", "multipleOf"])?,
                value(driver, 5)?,
            ),
            12 => ("format", json!(of(driver, &["date", "uri", "email", "regex", "ipv6"])?)),
            _ => (of(driver, &KEYWORDS)?, inner(driver)?),
        };
        members.insert(key.to_owned(), member);
    }
    Some(members.into())
}

fn value<D: Driver>(driver: &mut D, depth: usize) -> Option<Value> {
    Some(match driver.produce::<u8>()? % if depth > 5 { 4 } else { 6 } {
        0 => Value::Null,
        1 => json!(driver.produce::<i16>()?),
        2 => json!(f64::from(driver.produce::<i16>()?) / 8.0),
        3 => json!(of(driver, &TEXTS)?),
        4 => json!([value(driver, depth + 1)?, value(driver, depth + 1)?]),
        _ => json!({of(driver, &NAMES)?: value(driver, depth + 1)?, of(driver, &NAMES)?: value(driver, depth + 1)?}),
    })
}

/// A check ends, the two kinds of check agree, and where the schema library alone can check as well, it says the same.
#[test]
fn schema_and_value() {
    bolero::check!(name = "schema")
        .with_iterations(CHANCES)
        .with_type::<Case>()
        .for_each(|Case { schema, value }| {
            for origin in [SchemaAuthor::Own, SchemaAuthor::Foreign] {
                let Ok(compiled) = Schema::compile(schema, origin) else {
                    continue;
                };
                let size = text_len(value);
                let at_once = compiled.check_now(value, size, |violations| drop(violations.next()));
                let in_time = compiled.check(value, size, |violations| drop(violations.next()));
                let Some(at_once) = at_once else { continue };
                assert_eq!(Ok(at_once), in_time, "{schema} {value}");
                let options = jsonschema::options()
                    .offline()
                    .with_pattern_options(jsonschema::PatternOptions::regex());
                // It also refuses references in what does not count, beside another reference.
                let Ok(plain) = options.build(schema) else { continue };
                assert_eq!(at_once.is_ok(), plain.is_valid(value), "{schema} {value}");
            }
        });
}
