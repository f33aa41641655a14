//! Suggestions for mistyped names.

/// How many names are listed.
const LISTED: usize = 8;

/// Suggests the known name that `given` is close to; if none is, lists some of them. `None` if there are no known names.
///
/// A close name differs in at most a third of its letters. Two swapped letters count as one difference.
pub(crate) fn suggestion<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut names: Vec<&str> = known.into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let near = names.iter().filter_map(|name| Some((distance(given, name)?, name)));
    if let Some((_, nearest)) = near.min_by_key(|(distance, _)| *distance) {
        return Some(format!("did you mean `{nearest}`?"));
    }
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
    distance(given, known).is_some()
}

/// In how many letters the names differ, if they are close. Most names of a long list are told apart by their letters, whatever their order: letter by letter, a
/// long name would take seconds.
fn distance(given: &str, known: &str) -> Option<usize> {
    let most = closest(given);
    let (given, known) = (given.to_lowercase(), known.to_lowercase());
    let distance = (excess(&given, &known) <= most).then(|| strsim::damerau_levenshtein(&given, &known));
    distance.filter(|distance| *distance <= most)
}

/// How many letters one of the names has beyond those of the other, whatever their order: at most their distance.
fn excess(given: &str, known: &str) -> usize {
    let mut counts = [0_isize; 256];
    for letter in given.chars() {
        counts[letter as usize % 256] += 1;
    }
    for letter in known.chars() {
        counts[letter as usize % 256] -= 1;
    }
    let of = |sign: isize| counts.iter().map(|count| (count * sign).max(0)).sum::<isize>();
    of(1).max(of(-1)).unsigned_abs()
}

/// The letters in which a close name may differ.
fn closest(given: &str) -> usize {
    given.chars().count().div_ceil(3)
}

#[cfg(test)]
mod tests {
    use super::{closest, distance, excess, suggestion};
    use proptest::prelude::*;

    #[test]
    fn close_names_are_suggested_as_questions() {
        let known = ["retention", "retry", "name"];
        assert_eq!(suggestion("retntion", known).unwrap(), "did you mean `retention`?");
        assert_eq!(suggestion("Retry", known).unwrap(), "did you mean `retry`?");
        let expected = "there is `name`, `retention`, `retry`";
        assert_eq!(suggestion("postgres_url", known).unwrap(), expected);
        assert_eq!(suggestion("x", []), None);
    }

    #[test]
    fn a_long_name_is_compared_with_no_short_one() {
        let (given, known) = ("no_such_tool".repeat(1_000), "tool_such_no".repeat(600));
        assert!(excess(&given, &known) > closest(&given));
        assert_eq!(excess("abc", "cba"), 0);
        assert_eq!(excess("aab", "b"), 2);
    }

    proptest! {
        /// What spares the comparison of two names changes nothing.
        #[test]
        fn names_are_close_as_their_distance_says(given in "[a-dA-Dé_]{0,8}", known in "[a-dA-Dé_ß]{0,8}") {
            let exact = strsim::damerau_levenshtein(&given.to_lowercase(), &known.to_lowercase());
            prop_assert_eq!(distance(&given, &known), (exact <= closest(&given)).then_some(exact));
        }
    }
}
