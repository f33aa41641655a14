//! A compiled schema, and checks of values against it.

use crate::{
    SchemaError, SchemaProblem, Violation,
    guard::{self, Allowance},
    pattern,
    survey::{self, Survey},
};
use jsonschema::{Draft, Validator, error::ValidationErrorKind};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, time::Duration};

/// The largest schema that is used, in bytes.
const MOST_BYTES: usize = 256 * 1024;
/// How many different patterns a schema may have.
const MOST_PATTERNS: usize = 256;
/// The memory of one compiled pattern.
const LARGEST_PATTERN: usize = 4 << 20;
/// The bytes of a compiled pattern for each of its states, about.
const BYTES_PER_STATE: usize = 32;
/// A value is checked at once if the product of its size and the schema's weight is not larger: some milliseconds.
const QUICK: usize = 1_000_000;
/// The largest value that is checked at once.
const QUICK_BYTES: usize = 64 * 1024;
/// A check of what others have written, schema and value, is not begun if this product is larger: it would take many seconds, and a match of a pattern
/// cannot be ended.
const MOST_FOREIGN: usize = 1_000_000_000;

/// For a check at once, on a thread with work to do.
const AT_ONCE: Allowance = Allowance {
    references: 10_000,
    stack: 256 * 1024,
    time: None,
};
/// For a check away from those threads.
const IN_TIME: Allowance = Allowance {
    references: 0,
    stack: 1024 * 1024,
    time: Some(Duration::from_secs(1)),
};

/// Who has written a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaAuthor {
    /// The author or the operator of this server.
    Own,
    /// Another server. Its patterns get less memory.
    Foreign,
}

impl SchemaAuthor {
    /// The memory of all patterns of a schema.
    fn pattern_bytes(self) -> usize {
        match self {
            Self::Own => 8 << 20,
            Self::Foreign => 1 << 20,
        }
    }
}

/// A schema that is compiled.
pub struct Schema {
    validator: Validator,
    origin: SchemaAuthor,
    /// How long a check takes for each byte of the value, in some unit.
    weight: usize,
    has_alternatives: bool,
}

/// A value that was not checked: it takes too long, or too much stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the check against the schema takes too long")]
pub struct Unchecked;

/// The first violations, for a description.
type Violations<'a, 'v> = &'a mut dyn Iterator<Item = Violation<'v>>;

impl Schema {
    /// Compiles a schema. `format` is an annotation in drafts since 2019-09, and checked in earlier ones.
    ///
    /// # Errors
    /// [`SchemaError`] if it is no JSON Schema, refers to something outside of it, or exceeds a limit.
    pub fn compile(schema: &Value, origin: SchemaAuthor) -> Result<Self, SchemaError> {
        Self::new(schema, origin, None)
    }

    /// As [`compile`](Self::compile); with `checks_formats` every `format` is checked, otherwise none.
    ///
    /// # Errors
    /// As for [`compile`](Self::compile).
    pub fn with_formats(schema: &Value, origin: SchemaAuthor, checks_formats: bool) -> Result<Self, SchemaError> {
        Self::new(schema, origin, Some(checks_formats))
    }

    fn new(schema: &Value, origin: SchemaAuthor, checks_formats: Option<bool>) -> Result<Self, SchemaError> {
        let whole = |problem| SchemaError {
            place: String::new(),
            problem,
        };
        // Depth first: what follows recurses.
        let survey = Survey::of(schema)?;
        let bytes = schema.to_string().len();
        if bytes > MOST_BYTES {
            return Err(whole(SchemaProblem::TooLarge {
                bytes,
                most: MOST_BYTES,
            }));
        }
        let patterns = patterns_of(&survey)?;
        let mut pattern_bytes = 0;
        for (text, place) in &patterns {
            let fault = |problem| SchemaError {
                place: (*place).to_owned(),
                problem,
            };
            let left = origin.pattern_bytes() - pattern_bytes;
            pattern_bytes += pattern::size(text, left.min(LARGEST_PATTERN)).map_err(fault)?;
        }
        let cache = (origin.pattern_bytes() / patterns.len().max(1)).clamp(32 * 1024, 1 << 20);
        let options = jsonschema::options()
            .offline()
            .with_pattern_options(pattern::options(LARGEST_PATTERN, cache))
            .with_keyword(guard::KEYWORD, guard::keyword);
        let options = match checks_formats {
            Some(checks) => options.should_validate_formats(checks),
            None => options,
        };
        let validator = match survey.has_references() {
            false => options.build(schema),
            true => {
                let draft = Draft::default().detect(schema);
                let ref_has_siblings = !matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
                // What stands beside a reference must be right, too.
                jsonschema::meta::validate(schema).map_err(|error| invalid(&error, None))?;
                options
                    .build(&survey::guarded(schema, ref_has_siblings))
                    // Its places are those of the guarded schema.
                    .map_err(|error| options.build(schema).err().unwrap_or(error))
            }
        };
        Ok(Self {
            validator: validator.map_err(|error| invalid(&error, survey.outside.as_ref()))?,
            origin,
            weight: survey.nodes + pattern_bytes / BYTES_PER_STATE / 16,
            has_alternatives: survey.has_alternatives,
        })
    }

    /// Checks a value at once if that takes no longer than some milliseconds; `None` if it may. `size`: of the value as JSON, in bytes.
    ///
    /// # Errors
    /// What `describe` makes of the violations.
    pub fn check_now<T>(
        &self,
        value: &Value,
        size: usize,
        describe: impl FnOnce(Violations<'_, '_>) -> T,
    ) -> Option<Result<(), T>> {
        if !self.is_quick(size) {
            return None;
        }
        if guard::within(AT_ONCE, || self.validator.is_valid(value))? {
            return Some(Ok(()));
        }
        guard::within(AT_ONCE, || describe(&mut self.validator.iter_errors(value))).map(Err)
    }

    /// Whether a value of this size is one for [`check_now`](Self::check_now).
    pub fn is_quick(&self, size: usize) -> bool {
        size <= QUICK_BYTES && self.cost(size) <= QUICK
    }

    fn cost(&self, size: usize) -> usize {
        size.saturating_mul(self.weight)
    }

    /// Checks a value, within a deadline. This may take seconds, so it belongs on a thread for such work: see [`off_thread`](crate::off_thread).
    /// `describe` gets at most one violation of a large value, or none if to find it takes too long.
    ///
    /// # Errors
    /// [`Unchecked`]; inside, what `describe` makes of the violations.
    pub fn check<T>(
        &self,
        value: &Value,
        size: usize,
        describe: impl FnOnce(Violations<'_, '_>) -> T,
    ) -> Result<Result<(), T>, Unchecked> {
        if self.origin == SchemaAuthor::Foreign && self.cost(size) > MOST_FOREIGN {
            return Err(Unchecked);
        }
        if guard::within(IN_TIME, || self.validator.is_valid(value)).ok_or(Unchecked)? {
            return Ok(Ok(()));
        }
        let mut describe = Some(describe);
        let mut described = |violations: Violations<'_, '_>| describe.take().map(|describe| describe(violations));
        // All violations of a large value may take more memory than anybody wants to give, and those of alternatives are found together.
        let found = guard::within(IN_TIME, || match self.cost(size) <= QUICK {
            true => described(&mut self.validator.iter_errors(value)),
            false if self.origin == SchemaAuthor::Foreign && self.has_alternatives => {
                described(&mut std::iter::empty())
            }
            false => described(&mut self.validator.validate(value).err().into_iter()),
        });
        let found = found.flatten().or_else(|| described(&mut std::iter::empty()));
        found.map(Err).ok_or(Unchecked)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// The different patterns, each with its first place.
fn patterns_of(survey: &Survey) -> Result<BTreeMap<&str, &str>, SchemaError> {
    let mut patterns = BTreeMap::new();
    for (place, pattern) in &survey.patterns {
        patterns.entry(pattern.as_str()).or_insert(place.as_str());
        if patterns.len() > MOST_PATTERNS {
            return Err(SchemaError {
                place: place.clone(),
                problem: SchemaProblem::TooManyPatterns(MOST_PATTERNS),
            });
        }
    }
    Ok(patterns)
}

fn invalid(error: &Violation<'_>, outside: Option<&(String, String)>) -> SchemaError {
    if let (
        ValidationErrorKind::Referencing(jsonschema::ReferencingError::Unretrievable { .. }),
        Some((place, reference)),
    ) = (error.kind(), outside)
    {
        return SchemaError {
            place: place.clone(),
            problem: SchemaProblem::OutsideReference(reference.clone()),
        };
    }
    SchemaError {
        place: error.instance_path().as_str().to_owned(),
        problem: SchemaProblem::Invalid(error.to_string()),
    }
}

/// About how long a value is as JSON, for values that were never text.
pub fn text_len(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => 2 + elements.iter().map(text_len).sum::<usize>(),
        Value::Object(members) => {
            2 + members
                .iter()
                .map(|(name, value)| name.len() + 4 + text_len(value))
                .sum::<usize>()
        }
        _ => 8,
    }
}
