//! The names that tools and prompts may have.

/// The longest name.
const LONGEST: usize = 128;

/// Whether `name` can be one.
///
/// # Errors
/// What is wrong with it and what would be right.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let fits = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
    if let Some(wrong) = name.chars().find(|c| !fits(c)) {
        let better: String = name.chars().map(|c| if fits(&c) { c } else { '_' }).collect();
        return Err(format!(
            "{wrong:?} cannot stand in a name, which is made of A-Z a-z 0-9 _ - and the full stop: `{better}` would be right"
        ));
    }
    match name.len() {
        0 => Err("its name is empty: give it 1 to 128 of A-Z a-z 0-9 _ - and the full stop".to_owned()),
        1..=LONGEST => Ok(()),
        length => Err(format!("its name has {length} characters: {LONGEST} are the most")),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn names_are_checked_and_mended() {
        assert_eq!(check("test_simple-text.v2"), Ok(()));
        assert_eq!(check(&"x".repeat(128)), Ok(()));
        assert!(check(&"x".repeat(129)).is_err());
        assert!(check("").is_err());
        assert!(check("my tool").unwrap_err().contains("`my_tool` would be right"));
    }
}
