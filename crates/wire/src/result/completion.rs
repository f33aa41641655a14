//! The result of `completion/complete`, which is the same in both generations.

use crate::json;
use longhaul_core::Json;

/// The largest number of values in one result.
pub const MAX_VALUES: usize = 100;

/// Builds the CompleteResult of `values`, best first. Values beyond [`MAX_VALUES`] are left out, and `total` and `hasMore` say so.
/// Write it with [`legacy::result`](crate::legacy::result) or [`modern::result`](crate::modern::result).
///
/// ```
/// let result = longhaul_wire::completion::build_result(&["python", "pytorch"]);
/// assert_eq!(result.as_str(), r#"{"completion":{"values":["python","pytorch"]}}"#);
/// ```
pub fn build_result(values: &[impl AsRef<str>]) -> Json {
    let mut out = String::from(r#"{"completion":{"values":["#);
    for (nth, value) in values.iter().take(MAX_VALUES).enumerate() {
        out.push_str(if nth == 0 { "" } else { "," });
        json::push_string(&mut out, value.as_ref());
    }
    out.push(']');
    if values.len() > MAX_VALUES {
        out.push_str(r#","total":"#);
        json::push_int(&mut out, values.len());
        out.push_str(r#","hasMore":true"#);
    }
    out.push_str("}}");
    Json::trusted(out)
}
