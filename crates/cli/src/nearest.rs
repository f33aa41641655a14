//! Suggestions for mistyped names.

/// Suggests the known name nearest to `given`: "did you mean" if it is close, else "the nearest known name is". `None` if there are no
/// known names.
///
/// A close name differs in at most a third of its letters, or in two. Two swapped letters count as one difference.
pub(crate) fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lowered = given.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lowered, &name.to_lowercase()), name))
        .min()
        .map(|(distance, name)| {
            if distance <= closest(given) {
                format!("did you mean `{name}`?")
            } else {
                format!("the nearest known name is `{name}`")
            }
        })
}

/// Whether the names are close.
pub(crate) fn is_near(given: &str, known: &str) -> bool {
    strsim::damerau_levenshtein(&given.to_lowercase(), &known.to_lowercase()) <= closest(given)
}

/// The letters in which a close name may differ.
fn closest(given: &str) -> usize {
    (given.chars().count() / 3).max(2)
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
            "the nearest known name is `retry`"
        );
        assert_eq!(suggestion("x", []), None);
    }
}
