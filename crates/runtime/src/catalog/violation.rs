//! Violations of a schema, described so that the caller can mend them.

use longhaul_core::shorten;
use longhaul_json_schema::{JsonType, TypeKind, Violation, ViolationKind};

/// How many of a schema's alternatives are listed.
const LISTED_ALTERNATIVES: usize = 10;
/// How many unknown properties are named.
const LISTED_PROPERTIES: usize = 5;
/// The longest name that is shown, in bytes.
const LONGEST_NAME: usize = 40;

/// Where and why. The value itself is left out: the caller knows it, and it may be long or secret.
pub(super) fn describe(violation: &Violation<'_>) -> String {
    let path = violation.instance_path().to_string();
    match path.trim_start_matches('/') {
        "" => format!("arguments: {}", why(violation)),
        place => format!("{place}: {}", why(violation)),
    }
}

fn why(violation: &Violation<'_>) -> String {
    match violation.kind() {
        ViolationKind::AnyOf { context } | ViolationKind::OneOfNotValid { context } => {
            no_alternative(violation, context)
        }
        ViolationKind::FalseSchema if violation.schema_path().as_str().ends_with("/additionalProperties") => {
            "it takes no properties: leave them out".to_owned()
        }
        ViolationKind::AdditionalProperties { unexpected } | ViolationKind::UnevaluatedProperties { unexpected } => {
            unknown_properties(unexpected)
        }
        ViolationKind::FalseSchema => "it is not allowed: leave it out".to_owned(),
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
fn no_alternative(violation: &Violation<'_>, alternatives: &[Vec<Violation<'static>>]) -> String {
    let outer = violation.instance_path().as_str();
    let reason = |inner: &Violation<'static>| {
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

fn wants_null(fault: &Violation<'_>) -> bool {
    matches!(
        fault.kind(),
        ViolationKind::Type {
            kind: TypeKind::Single(JsonType::Null)
        }
    )
}
