//! What `completion/complete` answers, the same in both generations.

use crate::json;
use longhaul_core::Json;

/// How many values one answer holds at most (U-36).
pub const MAX_VALUES: usize = 100;

/// The CompleteResult of `values`, best first. What is beyond [`MAX_VALUES`] is left out, and the result says so. It goes out
/// through [`legacy::result`](crate::legacy::result) or [`modern::result`](crate::modern::result).
///
/// ```
/// let result = longhaul_wire::completion::result(&["python", "pytorch"]);
/// assert_eq!(result.as_str(), r#"{"completion":{"values":["python","pytorch"]}}"#);
/// ```
pub fn result(values: &[impl AsRef<str>]) -> Json {
    let mut out = String::from(r#"{"completion":{"values":["#);
    for (nth, value) in values.iter().take(MAX_VALUES).enumerate() {
        out.push_str(if nth == 0 { "" } else { "," });
        json::push_string(&mut out, value.as_ref());
    }
    out.push(']');
    if values.len() > MAX_VALUES {
        out.push_str(r#","total":"#);
        json::push_int(&mut out, values.len() as u64);
        out.push_str(r#","hasMore":true"#);
    }
    out.push_str("}}");
    Json::trusted(out)
}
