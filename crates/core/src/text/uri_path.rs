//! Paths as parts of URIs.

/// A path as part of a URI: what is not unreserved there (RFC 3986, section 2.3) is escaped, but for the slashes.
///
/// ```
/// assert_eq!(longhaul_core::uri_path("out/a report?.pdf"), "out/a%20report%3F.pdf");
/// ```
pub fn uri_path(path: &str) -> String {
    let mut escaped = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
