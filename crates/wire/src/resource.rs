//! A resource's text, before a generation gives it its shape.

use crate::{
    json,
    meta::{LOG_STRETCH, OUTPUT_PAGE},
    object::object,
    task_uri::{TaskPart, TaskUri},
};
use longhaul_core::TaskId;
use serde_json::value::RawValue;

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

/// A part of what a task has given out before its end.
#[derive(Debug, Clone, Copy)]
pub struct OutputPage<'a> {
    /// Whose.
    pub task: &'a TaskId,
    /// Blocks of content as MCP has them, each with its place; in order.
    pub blocks: &'a [(u32, &'a str)],
    /// The last place that was looked at: where to go on reading.
    pub next: u32,
    /// The last place there is.
    pub total: u32,
}

object! {
    struct Block {
        kind = "type",
        text = "text",
        data = "data",
        mime_type = "mimeType",
        resource = "resource",
    }
}

impl OutputPage<'_> {
    /// Appends `"contents":[…]`.
    pub(crate) fn push_contents(&self, out: &mut String) {
        out.push_str(r#""contents":["#);
        for (nth, (place, block)) in self.blocks.iter().enumerate() {
            if nth > 0 {
                out.push(',');
            }
            self.push_block(out, *place, block);
        }
        out.push(']');
    }

    /// Appends `"dev.longhaul/output":{…}`.
    pub(crate) fn push_place(&self, out: &mut String) {
        let (next, total) = (self.next, self.total);
        out.push_str(&format!(r#""{OUTPUT_PAGE}":{{"next":{next},"total":{total}}}"#));
    }

    /// A block under the address at which it alone is read. What a resource cannot hold as it is, it holds as JSON.
    fn push_block(&self, out: &mut String, place: u32, text: &str) {
        let mut block = Block::default();
        let is_read = block.fill(text).is_ok();
        let kind = block.kind.filter(|_| is_read).and_then(json::string);
        if let (Some("resource"), Some(resource)) = (kind.as_deref(), block.resource) {
            // It has an address of its own.
            return out.push_str(resource.get());
        }
        let uri = TaskUri {
            from: Some(u64::from(place) - 1),
            limit: Some(1),
            ..TaskUri::of(self.task.clone(), TaskPart::Output)
        };
        out.push_str(r#"{"uri":"#);
        json::push_string(out, &uri.to_string());
        out.push_str(r#","mimeType":"#);
        match (kind.as_deref(), block.text, block.data, block.mime_type) {
            (Some("text"), Some(text), _, _) if is_string(text) => {
                out.push_str(r#""text/plain","text":"#);
                out.push_str(text.get());
            }
            (Some("image" | "audio"), _, Some(data), Some(mime_type)) if is_string(data) && is_string(mime_type) => {
                out.push_str(mime_type.get());
                out.push_str(r#","blob":"#);
                out.push_str(data.get());
            }
            _ => {
                out.push_str(r#""application/json","text":"#);
                json::push_string(out, text);
            }
        }
        out.push('}');
    }
}

fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}
