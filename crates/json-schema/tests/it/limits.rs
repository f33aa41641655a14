//! Schemas that are refused, and those that are not.

use longhaul_json_schema::{Schema, SchemaAuthor, SchemaProblem};
use serde_json::{Value, json};

fn refusal(schema: &Value, origin: SchemaAuthor) -> Option<(String, SchemaProblem)> {
    let error = Schema::compile(schema, origin).err()?;
    Some((error.place, error.problem))
}

fn nested(levels: usize, inner: Value, around: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |schema, _| around(schema))
}

#[test]
fn patterns_that_need_backtracking_are_refused_with_what_to_write() {
    for pattern in [
        r"(?=.*[A-Z])(?=.*\d).{8,}",
        "^(?!con$)",
        "(?<=a)b",
        "(?<!a)b",
        r"^(a+)\1$",
        r"(?<n>a)\k<n>",
    ] {
        let schema = json!({"type": "object", "properties": {"p": {"pattern": pattern}}});
        let error = Schema::compile(&schema, SchemaAuthor::Own).err().unwrap();
        assert_eq!(error.place, "/properties/p/pattern", "{pattern}");
        let instead = match error.problem {
            SchemaProblem::LookAround(_) => "allOf",
            SchemaProblem::Backreference(_) => "alternatives",
            other => panic!("{pattern}: {other:?}"),
        };
        assert!(
            error.to_string().contains(instead) && error.to_string().contains(pattern),
            "{error}"
        );
        let names = json!({"patternProperties": {pattern: {}}});
        let place = refusal(&names, SchemaAuthor::Foreign).unwrap().0;
        assert!(place.starts_with("/patternProperties/"), "{place}");
    }
    assert!(matches!(
        refusal(&json!({"pattern": "("}), SchemaAuthor::Own).unwrap().1,
        SchemaProblem::Invalid(why) if why == "\"(\" is not a \"regex\""
    ));
}

#[test]
fn everyday_patterns_are_taken() {
    for pattern in [
        "^[a-z0-9-]{1,64}$",
        ".{8,}",
        r"^[\p{L}\p{N} _-]{1,64}$",
        r"^[\w.+-]+@[\w-]+\.[\w.]+$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$",
        r"^\/[^\x00]*$",
        r"^\S{1,255}$",
        "^.{1,1000}$",
        r"^\cJ$",
    ] {
        assert_eq!(
            refusal(&json!({"pattern": pattern}), SchemaAuthor::Own),
            None,
            "{pattern}"
        );
    }
}

#[test]
fn what_would_take_much_memory_or_time_is_refused() {
    let many = |count: usize, schema: &dyn Fn(usize) -> Value| {
        let properties = (0..count).map(|n| (format!("p{n}"), schema(n)));
        json!({"properties": properties.collect::<serde_json::Map<_, _>>()})
    };
    let unevaluated = |levels| {
        nested(
            levels,
            json!({}),
            |inner| json!({"allOf": [inner], "unevaluatedProperties": {"type": "string"}}),
        )
    };
    let chain = |length: usize| {
        let mut defs: serde_json::Map<_, _> = (0..length)
            .map(|n| (format!("a{n}"), json!({"$ref": format!("#/$defs/a{}", n + 1)})))
            .collect();
        defs.insert(format!("a{length}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/a0", "$defs": defs})
    };
    use SchemaProblem as Problem;
    type Case = (Value, fn(&Problem) -> bool);
    let refused: [Case; 8] = [
        (json!({"pattern": r"\p{L}{10000}"}), |why| {
            matches!(why, Problem::PatternTooLarge(_))
        }),
        (
            many(200, &|n| json!({"pattern": format!(r"\p{{L}}{{{}}}", 20 + n)})),
            |why| matches!(why, Problem::PatternTooLarge(_)),
        ),
        (many(300, &|n| json!({"pattern": format!("^a{n}b+$")})), |why| {
            matches!(why, Problem::TooManyPatterns(_))
        }),
        (json!({"description": "x".repeat(300_000)}), |why| {
            matches!(why, Problem::TooLarge { .. })
        }),
        (
            nested(60, json!({}), |inner| json!({"properties": {"p": inner}})),
            |why| matches!(why, Problem::TooDeep(_)),
        ),
        (chain(2_000), |why| matches!(why, Problem::TooManyReferences(_))),
        (unevaluated(6), |why| matches!(why, Problem::TooManyUnevaluated(_))),
        (
            json!({"properties": {"a": {"$ref": "https://example.com/s.json"}}}),
            |why| matches!(why, Problem::OutsideReference(_)),
        ),
    ];
    for (schema, is_right) in refused {
        for origin in [SchemaAuthor::Own, SchemaAuthor::Foreign] {
            let why = refusal(&schema, origin).map(|(_, why)| why);
            assert!(why.as_ref().is_some_and(is_right), "{why:?}");
        }
    }
    for schema in [
        many(200, &|n| json!({"pattern": format!("^a{n}b+$")})),
        nested(30, json!({}), |inner| json!({"properties": {"p": inner}})),
        chain(900),
        unevaluated(3),
        // Not a pattern, a reference or a schema.
        json!({"const": {"$ref": "https://example.com/s.json", "pattern": "(?=a)"}, "properties": {"pattern": {}, "$ref": {}}}),
    ] {
        assert_eq!(refusal(&schema, SchemaAuthor::Foreign), None);
    }
}
