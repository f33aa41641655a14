//! Patterns of tools' names.

use std::{fmt, str::FromStr};

/// A name of tools, in which each `*` stands for any characters.
///
/// ```
/// use longhaul_core::ToolPattern;
/// let pattern: ToolPattern = "build*".parse()?;
/// assert!(pattern.matches("build") && pattern.matches("build_all") && !pattern.matches("rebuild"));
/// # Ok::<(), longhaul_core::InvalidToolPattern>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern(String);

/// A text that is no name of tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name of tools: write letters, digits and _ - . / :, with * for any characters")]
pub struct InvalidToolPattern(pub String);

impl ToolPattern {
    /// Whether a tool's name fits.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            // There is no `*`.
            return rest.is_empty();
        };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// Whether every name fits.
    pub fn is_any(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// The text of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ToolPattern {
    type Err = InvalidToolPattern;

    fn from_str(text: &str) -> Result<Self, InvalidToolPattern> {
        // The characters of tools' names (and `*`), so that a list with commas is not taken for one name. It stands in scopes, which are separated by
        // blanks and quoted.
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-./:*".contains(c);
        match !text.is_empty() && text.chars().all(fits) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidToolPattern(text.to_owned())),
        }
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_22_patterns_match_whole_names() {
        for (pattern, name, matches) in [
            ("build", "build", true),
            ("build", "build_all", false),
            ("build", "rebuild", false),
            ("build*", "build", true),
            ("build*", "build_all", true),
            ("*build", "rebuild", true),
            ("*build", "rebuilds", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a_b_b_c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*", "", true),
            ("**", "any", true),
            ("a**b", "ab", true),
            ("", "", false),
        ] {
            let fits = pattern.parse().is_ok_and(|pattern: ToolPattern| pattern.matches(name));
            assert_eq!(fits, matches, "{pattern} {name}");
        }
    }
}
