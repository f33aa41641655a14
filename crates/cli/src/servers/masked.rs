//! Servers as they are shown and listed: without the secrets in their URLs.

use longhaul_core::Masking;

/// A text without the secrets in it.
pub(crate) fn masked(text: &str) -> String {
    Masking::default().text(text).into_owned()
}
