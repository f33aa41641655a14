//! A fuzz target: what programs print. See `cargo xtask fuzz`.

use longhaul_core::{skip_partial, terminal_text};

/// Random cases in a test run.
const CHANCES: usize = 2_000;

/// Whatever is printed, what is shown of it is plain text, and not much longer.
#[test]
fn terminal() {
    bolero::check!(name = "terminal")
        .with_iterations(CHANCES)
        .with_max_len(4_096)
        .for_each(|output: &[u8]| {
            let text = terminal_text(output);
            let is_plain = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
            assert!(text.chars().all(is_plain), "{text:?}");
            assert!(text.len() <= 4 * output.len(), "{} bytes", text.len());
            assert_eq!(terminal_text(text.as_bytes()), text);
            assert!(skip_partial(output) <= output.len());
        });
}
