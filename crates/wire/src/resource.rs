//! Resources as they are listed and read, before a generation gives them their shape.

use crate::{json, meta::LOG_STRETCH};

/// A family of resources.
#[derive(Debug, Clone, Copy)]
pub struct TemplateEntry<'a> {
    /// RFC 6570.
    pub uri_template: &'a str,
    /// For programs.
    pub name: &'a str,
    /// For people.
    pub title: Option<&'a str>,
    /// What it holds.
    pub description: Option<&'a str>,
    /// Of all its members, if they agree.
    pub mime_type: Option<&'a str>,
}

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

/// Appends `"resourceTemplates":[…]`.
pub(crate) fn push_templates(out: &mut String, templates: &[TemplateEntry<'_>]) {
    out.push_str(r#""resourceTemplates":["#);
    for (nth, template) in templates.iter().enumerate() {
        out.push_str(if nth == 0 {
            r#"{"uriTemplate":"#
        } else {
            r#",{"uriTemplate":"#
        });
        json::push_string(out, template.uri_template);
        out.push_str(r#","name":"#);
        json::push_string(out, template.name);
        push_text(out, r#","title":"#, template.title);
        push_text(out, r#","description":"#, template.description);
        push_text(out, r#","mimeType":"#, template.mime_type);
        out.push('}');
    }
    out.push(']');
}

/// Appends `"contents":[…]`.
pub(crate) fn push_contents(out: &mut String, content: &TextContent<'_>) {
    out.push_str(r#""contents":[{"uri":"#);
    json::push_string(out, content.uri);
    push_text(out, r#","mimeType":"#, content.mime_type);
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

fn push_text(out: &mut String, member: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.push_str(member);
        json::push_string(out, text);
    }
}
