//! Why a schema cannot be used.

use longhaul_core::shorten;

/// The longest pattern or reference that an error shows, in bytes.
const SHOWN: usize = 100;

/// A schema that cannot be used: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", if place.is_empty() { String::new() } else { format!("{place}: ") })]
pub struct SchemaError {
    /// A JSON pointer into the schema; empty for all of it.
    pub place: String,
    /// What is wrong, and what would be right.
    pub problem: SchemaProblem,
}

/// What is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProblem {
    /// It has too many bytes.
    #[error("the schema has {bytes} bytes, and at most {most} are used")]
    TooLarge {
        /// Its size as compact JSON.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// It is nested too deeply.
    #[error("the schema is nested deeper than {0} levels; put parts of it under `$defs` and refer to them")]
    TooDeep(usize),
    /// It has too many references.
    #[error("the schema has more than {0} references")]
    TooManyReferences(usize),
    /// `unevaluatedProperties` or `unevaluatedItems` within each other, each of which evaluates again all that is below it.
    #[error(
        "`unevaluatedProperties` and `unevaluatedItems` are nested deeper than {0} levels, which takes exponential time to check; \
         use `additionalProperties` or `items` on the inner levels"
    )]
    TooManyUnevaluated(usize),
    /// It has too many patterns.
    #[error("the schema has more than {0} patterns")]
    TooManyPatterns(usize),
    /// Its patterns need too much memory.
    #[error(
        "the pattern `{}` takes too much memory; write `maxLength` in place of a high repetition count, and a smaller class in place of one such as `\\p{{L}}`",
        shorten(.0, SHOWN)
    )]
    PatternTooLarge(String),
    /// A pattern that can only be matched by backtracking.
    #[error(
        "the pattern `{}` has look-around, which takes exponential time to match; write each condition as a pattern of its own under `allOf`, \
         and lengths as `minLength` and `maxLength`: \
         {{\"minLength\": 8, \"allOf\": [{{\"pattern\": \"[A-Z]\"}}, {{\"pattern\": \"[0-9]\"}}]}}; what must not match goes into `not`",
        shorten(.0, SHOWN)
    )]
    LookAround(String),
    /// A pattern that can only be matched by backtracking.
    #[error(
        "the pattern `{}` has a backreference, which takes exponential time to match; write the alternatives out, as in `^(\"[^\"]*\"|'[^']*')$`",
        shorten(.0, SHOWN)
    )]
    Backreference(String),
    /// A reference to something that is not within the schema.
    #[error(
        "refers to {:?}; nothing is fetched from files or networks, so only references within the schema (\"#/$defs/...\") work",
        shorten(.0, SHOWN)
    )]
    OutsideReference(String),
    /// It is no JSON Schema.
    #[error("{0}")]
    Invalid(String),
}
