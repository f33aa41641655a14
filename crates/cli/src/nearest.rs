//! What somebody who mistyped a name most likely meant.

/// The known name nearest to `given`, put as a question when it is near and as a plain statement when it is not.
/// `None` only when nothing is known.
///
/// Distance counts swapped letters as one slip; "near" is a slip for every three letters, and always at least two.
pub(crate) fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lowered = given.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lowered, &name.to_lowercase()), name))
        .min()
        .map(|(distance, name)| {
            if distance <= (given.chars().count() / 3).max(2) {
                format!("did you mean `{name}`?")
            } else {
                format!("the nearest known name is `{name}`")
            }
        })
}

#[cfg(test)]
mod tests {
    use super::suggestion;

    #[test]
    fn a_slip_is_asked_about_and_a_stranger_is_not() {
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
