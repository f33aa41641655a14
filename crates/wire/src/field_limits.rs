//! What limits the value of a field, in words for people.

use serde_json::Value;

/// What may be given for a field with this schema, as far as the schema limits it.
///
/// ```
/// use longhaul_wire::field_limits;
/// use serde_json::json;
///
/// let limits = |schema| field_limits(&schema).unwrap_or_default();
/// assert_eq!(limits(json!({"type": "integer", "minimum": 1, "maximum": 100})), "1 to 100");
/// assert_eq!(limits(json!({"type": "string", "maxLength": 40})), "at most 40 characters");
/// assert_eq!(limits(json!({"type": "array", "minItems": 1})), "how many: at least 1");
/// assert_eq!(limits(json!({"type": "boolean"})), "");
/// ```
pub fn field_limits(schema: &Value) -> Option<String> {
    match schema["type"].as_str()? {
        "integer" | "number" => range_in_words(&schema["minimum"], &schema["maximum"]),
        "string" => {
            let range = range_in_words(&schema["minLength"], &schema["maxLength"])?;
            let unit = if range.ends_with(" 1") {
                "character"
            } else {
                "characters"
            };
            Some(format!("{range} {unit}"))
        }
        "array" => {
            let range = range_in_words(&schema["minItems"], &schema["maxItems"])?;
            Some(format!("how many: {range}"))
        }
        _ => None,
    }
}

/// `1 to 3`, `at least 1`, `at most 3`; `None` if neither end is a number.
pub fn range_in_words(least: &Value, most: &Value) -> Option<String> {
    match (least.is_number(), most.is_number()) {
        (true, true) => Some(format!("{least} to {most}")),
        (true, false) => Some(format!("at least {least}")),
        (false, true) => Some(format!("at most {most}")),
        (false, false) => None,
    }
}
