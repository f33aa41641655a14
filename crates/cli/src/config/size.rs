//! Sizes as people write them: `512B`, `64KiB`, `4MiB`, `1GB`.

const UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// The text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a size above 0; write for example \"64KiB\", \"4MiB\" or \"1GB\"")]
pub(super) struct InvalidSize(String);

/// Reads a size in bytes: a whole number and its unit.
pub(super) fn parse(text: &str) -> Result<u64, InvalidSize> {
    let invalid = || InvalidSize(text.to_owned());
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| invalid())?;
    let (_, factor) = UNITS
        .iter()
        .find(|(name, _)| *name == unit.trim_start())
        .ok_or_else(invalid)?;
    number
        .checked_mul(*factor)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_numbers_with_a_unit() {
        assert_eq!(parse("4MiB"), Ok(4 << 20));
        assert_eq!(parse("64 KiB"), Ok(64 << 10));
        assert_eq!(parse("1GB"), Ok(1_000_000_000));
        for wrong in [
            "",
            "4",
            "MiB",
            "0MiB",
            "4 mib",
            "-1MiB",
            "1.5MiB",
            "99999999999TiB",
            "4MiBs",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
