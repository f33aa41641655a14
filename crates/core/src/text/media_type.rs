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

/// The media type of a file of this name, if its extension is known.
///
/// ```
/// assert_eq!(longhaul_core::media_type("out/Report.PDF"), Some("application/pdf"));
/// assert_eq!(longhaul_core::media_type("Makefile"), None);
/// ```
pub fn media_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    let (_, media_type) = TYPES.iter().find(|(extensions, _)| extensions.contains(&&*extension))?;
    Some(media_type)
}
