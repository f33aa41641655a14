//! How far a task is, from the numbers in its status message: a task has no other progress.

/// Finds a fraction in a status message, as `3/10` or `30 %`. It is only shown, so a wrong guess does no harm.
pub(crate) fn fraction_in(line: &str) -> Option<f64> {
    let line = line.replace(" %", "%");
    line.split_whitespace()
        .find_map(|word| {
            let word = word.trim_matches(|char: char| "()[],;:".contains(char));
            if let Some(percent) = word.strip_suffix('%') {
                return percent.parse::<f64>().ok().map(|percent| percent / 100.0);
            }
            let (current, total) = word.split_once('/')?;
            let (current, total): (f64, f64) = (current.parse().ok()?, total.parse().ok()?);
            (total > 0.0).then(|| current / total)
        })
        .filter(|fraction| (0.0..=1.0).contains(fraction))
}

/// A bar of eight characters and the percentage: `[###     ] 40%`.
pub(crate) fn bar(fraction: f64) -> String {
    let full = (fraction * 8.0) as usize;
    format!("[{:8}] {:.0}%", "#".repeat(full.min(8)), (fraction * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_found_in_status_messages() {
        assert_eq!(fraction_in("Encoding 60 %"), Some(0.6));
        assert_eq!(fraction_in("file 3/12 done"), Some(0.25));
        assert_eq!(fraction_in("[5%] linking"), Some(0.05));
        for none in ["Queued.", "usr/bin", "7/3", "1/0", "200%", ""] {
            assert_eq!(fraction_in(none), None, "{none}");
        }
    }

    #[test]
    fn a_bar_is_full_only_at_the_end() {
        assert_eq!(bar(0.0), "[        ] 0%");
        assert_eq!(bar(0.999), "[####### ] 99%");
        assert_eq!(bar(1.0), "[########] 100%");
    }
}
