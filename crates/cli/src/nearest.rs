//! Suggestions for mistyped names.

/// How many names are listed.
const LISTED: usize = 8;

/// Suggests the known name that `given` is close to; if none is, lists some of them. `None` if there are no known names.
///
/// A close name differs in at most a third of its letters. Two swapped letters count as one difference.
pub(crate) fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    let lowered = given.to_lowercase();
    let distance = |name: &&&str| strsim::damerau_levenshtein(&lowered, &name.to_lowercase());
    let nearest = known.iter().min_by_key(distance)?;
    if is_near(given, nearest) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let mut names = known.clone();
    names.sort_unstable();
    names.dedup();
    let listed: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    Some(match names.len().saturating_sub(LISTED) {
        0 => format!("there is {}", listed.join(", ")),
        more => format!("there is {} and {more} more", listed.join(", ")),
    })
}

/// Whether the names are close.
pub(crate) fn is_near(given: &str, known: &str) -> bool {
    strsim::damerau_levenshtein(&given.to_lowercase(), &known.to_lowercase()) <= closest(given)
}

/// The letters in which a close name may differ.
fn closest(given: &str) -> usize {
    given.chars().count().div_ceil(3)
}

#[cfg(test)]
mod tests {
    use super::suggestion;

    #[test]
    fn close_names_are_suggested_as_questions() {
        let known = ["retention", "retry", "name"];
        assert_eq!(suggestion("retntion", known).unwrap(), "did you mean `retention`?");
        assert_eq!(suggestion("Retry", known).unwrap(), "did you mean `retry`?");
        assert_eq!(
            suggestion("postgres_url", known).unwrap(),
            "there is `name`, `retention`, `retry`"
        );
        assert_eq!(suggestion("x", []), None);
    }
}
