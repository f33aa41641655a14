//! The names that tools and prompts may have.

/// The length of the longest name, in bytes.
const MAX_LENGTH: usize = 128;

/// Checks a name.
///
/// # Errors
/// What is wrong, and a name that is allowed.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let fits = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
    if let Some(wrong) = name.chars().find(|c| !fits(c)) {
        let better: String = name.chars().map(|c| if fits(&c) { c } else { '_' }).collect();
        return Err(format!(
            "{wrong:?} is not allowed in a name, which consists of A-Z a-z 0-9 _ - and the full stop: use `{better}`"
        ));
    }
    match name.len() {
        0 => Err("its name is empty: give it 1 to 128 of A-Z a-z 0-9 _ - and the full stop".to_owned()),
        1..=MAX_LENGTH => Ok(()),
        length => Err(format!(
            "its name has {length} characters: at most {MAX_LENGTH} are allowed"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn an_invalid_name_is_refused_with_a_valid_one() {
        assert_eq!(check("test_simple-text.v2"), Ok(()));
        assert_eq!(check(&"x".repeat(128)), Ok(()));
        assert!(check(&"x".repeat(129)).is_err());
        assert!(check("").is_err());
        assert!(check("my tool").unwrap_err().contains("use `my_tool`"));
    }
}
