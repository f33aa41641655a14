//! How much memory a pattern takes, or why it cannot be used.

use crate::SchemaProblem;
use jsonschema::{PatternOptions, Regex};
use serde_json::json;

/// The sizes of compiled patterns that are told apart, in bytes.
const SIZES: [usize; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// How patterns are compiled: in linear time, and within this much memory each.
pub(crate) fn options(most: usize, cache: usize) -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(most).dfa_size_limit(cache)
}

/// How large the pattern becomes at most.
///
/// # Errors
/// Why it cannot be compiled within `most`.
pub(crate) fn size(pattern: &str, most: usize) -> Result<usize, SchemaProblem> {
    let schema = json!({"pattern": pattern});
    let mut fault = None;
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        let options = jsonschema::options()
            .offline()
            .with_pattern_options(options(size, size));
        match options.build(&schema) {
            Ok(_) => return Ok(size),
            Err(error) => fault = Some(error.to_string()),
        }
    }
    Err(problem(pattern, fault.unwrap_or_default()))
}

/// Why the pattern does not compile. `jsonschema` says only that it does not, so the parser of `regex` is asked, which names what it does not support.
fn problem(pattern: &str, fault: String) -> SchemaProblem {
    match regex::RegexBuilder::new(pattern).size_limit(SIZES[0]).build() {
        Err(regex::Error::Syntax(why)) if why.contains("look-around") => SchemaProblem::LookAround(pattern.to_owned()),
        Err(regex::Error::Syntax(why))
            if (why.contains("backreference") && !pattern.contains(r"\0")) || pattern.contains(r"\k<") =>
        {
            SchemaProblem::Backreference(pattern.to_owned())
        }
        Err(regex::Error::Syntax(_)) => SchemaProblem::Invalid(fault),
        Ok(_) | Err(_) => SchemaProblem::PatternTooLarge(pattern.to_owned()),
    }
}
