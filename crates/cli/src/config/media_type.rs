//! Media types.

pub(crate) use longhaul_core::media_type;

/// Whether it looks like a media type, such as `text/plain; charset=utf-8`.
pub(crate) fn is_media_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !part.is_empty() && part.bytes().all(plain)
    };
    let is_shown = text.chars().all(|char| !char.is_control());
    is_shown
        && essence
            .split_once('/')
            .is_some_and(|(kind, sub)| is_part(kind) && is_part(sub))
}
