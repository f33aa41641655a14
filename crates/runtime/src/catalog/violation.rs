//! Violations of a schema, described so that the caller can mend them.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use longhaul_core::shorten;

/// How many of a schema's alternatives are listed.
const LISTED_ALTERNATIVES: usize = 10;
/// How many unknown properties are named.
const LISTED_PROPERTIES: usize = 5;
/// The longest name that is shown, in bytes.
const LONGEST_NAME: usize = 40;

/// Where and why. The value itself is left out: the caller knows it, and it may be long or secret.
pub(super) fn describe(violation: &ValidationError<'_>) -> String {
    let path = violation.instance_path().to_string();
    match path.trim_start_matches('/') {
        "" => format!("arguments: {}", why(violation)),
        place => format!("{place}: {}", why(violation)),
    }
}

fn why(violation: &ValidationError<'_>) -> String {
    match violation.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            no_alternative(violation, context)
        }
        ValidationErrorKind::FalseSchema if violation.schema_path().as_str().ends_with("/additionalProperties") => {
            "it takes no properties: leave them out".to_owned()
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unknown_properties(unexpected),
        ValidationErrorKind::FalseSchema => "it is not allowed: leave it out".to_owned(),
        _ => violation.masked().to_string(),
    }
}

/// As the schema library words it, but with a bounded list of names.
fn unknown_properties(unexpected: &[String]) -> String {
    let name = |name: &String| format!("'{}'", shorten(name, LONGEST_NAME));
    let names: Vec<String> = unexpected.iter().take(LISTED_PROPERTIES).map(name).collect();
    let names = names.join(", ");
    let were = match unexpected.len() {
        1 => format!("{names} was"),
        0..=LISTED_PROPERTIES => format!("{names} were"),
        all => format!("{names} and {} more were", all - LISTED_PROPERTIES),
    };
    format!("Additional properties are not allowed ({were} unexpected)")
}

/// Why each alternative does not fit. Null is left out if there are others.
fn no_alternative(violation: &ValidationError<'_>, alternatives: &[Vec<ValidationError<'static>>]) -> String {
    let outer = violation.instance_path().as_str();
    let reason = |inner: &ValidationError<'static>| {
        let path = inner.instance_path().as_str();
        match path.strip_prefix(outer).unwrap_or(path).trim_start_matches('/') {
            "" => why(inner),
            place => format!("{place}: {}", why(inner)),
        }
    };
    let first = alternatives.iter().filter_map(|faults| faults.first());
    let mut reasons: Vec<String> = first.clone().filter(|fault| !wants_null(fault)).map(reason).collect();
    if reasons.is_empty() {
        reasons = first.map(reason).collect();
    }
    let more = if reasons.len() > LISTED_ALTERNATIVES {
        "; …"
    } else {
        ""
    };
    reasons.truncate(LISTED_ALTERNATIVES);
    match &*reasons {
        [only] => only.clone(),
        all => format!("none of the alternatives fits: {}{more}", all.join("; ")),
    }
}

fn wants_null(fault: &ValidationError<'_>) -> bool {
    use jsonschema::{error::TypeKind, types::JsonType};
    matches!(
        fault.kind(),
        ValidationErrorKind::Type {
            kind: TypeKind::Single(JsonType::Null)
        }
    )
}

/// Why a schema is not valid, and where.
pub(super) fn describe_schema(error: &ValidationError<'_>) -> String {
    if let ValidationErrorKind::Referencing(error) = error.kind() {
        return match error {
            jsonschema::ReferencingError::Unretrievable { uri, .. } => {
                format!("it refers to {uri}, and only what is inside of it is followed: put that under `$defs`")
            }
            other => other.to_string(),
        };
    }
    match error.instance_path().as_str() {
        "" => error.to_string(),
        place => format!("at {place}: {error}"),
    }
}
