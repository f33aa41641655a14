//! Media types by the extensions of file names.

/// Extensions, and the type of their files. The types of source code are those that hosts show as text.
const TYPES: &[(&[&str], &str)] = &[
    (&["md", "markdown"], "text/markdown"),
    (&["txt", "text", "log"], "text/plain"),
    (&["html", "htm"], "text/html"),
    (&["css"], "text/css"),
    (&["csv"], "text/csv"),
    (&["tsv"], "text/tab-separated-values"),
    (&["js", "mjs", "cjs"], "text/javascript"),
    (&["ts", "tsx"], "text/x-typescript"),
    (&["py"], "text/x-python"),
    (&["rs"], "text/x-rust"),
    (&["go"], "text/x-go"),
    (&["java"], "text/x-java"),
    (&["c", "h"], "text/x-c"),
    (&["sh"], "text/x-shellscript"),
    (&["sql"], "application/sql"),
    (&["json"], "application/json"),
    (&["yaml", "yml"], "application/yaml"),
    (&["toml"], "application/toml"),
    (&["xml"], "application/xml"),
    (&["pdf"], "application/pdf"),
    (&["zip"], "application/zip"),
    (&["gz"], "application/gzip"),
    (&["png"], "image/png"),
    (&["jpg", "jpeg"], "image/jpeg"),
    (&["gif"], "image/gif"),
    (&["webp"], "image/webp"),
    (&["svg"], "image/svg+xml"),
    (&["ico"], "image/x-icon"),
    (&["mp3"], "audio/mpeg"),
    (&["wav"], "audio/wav"),
    (&["mp4"], "video/mp4"),
];

/// The type of a file of this name, if its extension is known.
pub(crate) fn media_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    let (_, media_type) = TYPES.iter().find(|(extensions, _)| extensions.contains(&&*extension))?;
    Some(media_type)
}

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
