//! A resource's text, before a generation gives it its shape.

use crate::{json, meta::LOG_STRETCH};

/// A resource's content.
#[derive(Debug, Clone, Copy)]
pub struct TextContent<'a> {
    /// As it was asked for.
    pub uri: &'a str,
    /// If known.
    pub mime_type: Option<&'a str>,
    /// The content.
    pub text: &'a str,
    /// Which part of a log it is, if it is one.
    pub stretch: Option<Stretch>,
}

/// Where a text lies in the log it was read from, in bytes; shown in the content's `_meta` under [`LOG_STRETCH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Where it begins.
    pub offset: u64,
    /// Where to go on reading.
    pub next: u64,
    /// Written so far.
    pub total: u64,
}

/// Appends `"contents":[…]`.
pub(crate) fn push_contents(out: &mut String, content: &TextContent<'_>) {
    out.push_str(r#""contents":[{"uri":"#);
    json::push_string(out, content.uri);
    if let Some(mime_type) = content.mime_type {
        out.push_str(r#","mimeType":"#);
        json::push_string(out, mime_type);
    }
    out.push_str(r#","text":"#);
    json::push_string(out, content.text);
    if let Some(stretch) = content.stretch {
        push_stretch(out, stretch);
    }
    out.push_str("}]");
}

fn push_stretch(out: &mut String, Stretch { offset, next, total }: Stretch) {
    out.push_str(r#","_meta":{"#);
    json::push_string(out, LOG_STRETCH);
    for (member, figure) in [
        (r#":{"offset":"#, offset),
        (r#","next":"#, next),
        (r#","total":"#, total),
    ] {
        out.push_str(member);
        json::push_int(out, figure);
    }
    out.push_str("}}");
}
