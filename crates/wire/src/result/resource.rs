//! The contents of a resource, as both generations write them.

use crate::{
    json::{self, object::object},
    meta::{ARTIFACT, LOG_PAGE, OUTPUT_PAGE},
    task::{TaskPart, TaskUri},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use longhaul_core::TaskId;
use serde_json::value::RawValue;

/// A resource, or a part of one.
#[derive(Debug, Clone, Copy)]
pub struct ResourceContent<'a> {
    /// The URI that was requested.
    pub uri: &'a str,
    /// The MIME type, if known.
    pub mime_type: Option<&'a str>,
    /// The content.
    pub body: ContentBody<'a>,
    /// Its position in what it is read from, if that is read in parts.
    pub page: Option<ContentPage<'a>>,
}

/// The content of a resource.
#[derive(Debug, Clone, Copy)]
pub enum ContentBody<'a> {
    /// A text.
    Text(&'a str),
    /// Bytes, which are written in base64.
    Blob(&'a [u8]),
}

/// The position of a content in what it was read from. Written to the content's `_meta`.
#[derive(Debug, Clone, Copy)]
pub enum ContentPage<'a> {
    /// In a log, under [`LOG_PAGE`].
    Log(LogPage),
    /// In an artifact with this SHA-256, under [`ARTIFACT`].
    Artifact {
        /// Where.
        page: LogPage,
        /// In hexadecimal digits.
        sha256: &'a str,
    },
}

/// A position in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPage {
    /// The first byte of the content.
    pub offset: u64,
    /// The offset to continue reading at.
    pub next: u64,
    /// The size of the whole, so far.
    pub total: u64,
}

/// Appends `"contents":[…]`.
pub(crate) fn push_contents(out: &mut String, content: &ResourceContent<'_>) {
    out.push_str(r#""contents":[{"uri":"#);
    json::push_string(out, content.uri);
    if let Some(mime_type) = content.mime_type {
        out.push_str(r#","mimeType":"#);
        json::push_string(out, mime_type);
    }
    match content.body {
        ContentBody::Text(text) => {
            out.push_str(r#","text":"#);
            json::push_string(out, text);
        }
        ContentBody::Blob(bytes) => {
            out.push_str(r#","blob":""#);
            BASE64_STANDARD.encode_string(bytes, out);
            out.push('"');
        }
    }
    if let Some(page) = content.page {
        push_page(out, page);
    }
    out.push_str("}]");
}

fn push_page(out: &mut String, page: ContentPage<'_>) {
    let (key, LogPage { offset, next, total }, sha256) = match page {
        ContentPage::Log(page) => (LOG_PAGE, page, None),
        ContentPage::Artifact { page, sha256 } => (ARTIFACT, page, Some(sha256)),
    };
    out.push_str(r#","_meta":{"#);
    json::push_string(out, key);
    for (member, number) in [
        (r#":{"offset":"#, offset),
        (r#","next":"#, next),
        (r#","total":"#, total),
    ] {
        out.push_str(member);
        json::push_int(out, number);
    }
    if let Some(sha256) = sha256 {
        out.push_str(r#","sha256":"#);
        json::push_string(out, sha256);
    }
    out.push_str("}}");
}

/// A part of the output that a task has emitted so far.
#[derive(Debug, Clone, Copy)]
pub struct OutputPage<'a> {
    /// The task.
    pub task: &'a TaskId,
    /// MCP content blocks, each with its index in the journal, in order.
    pub blocks: &'a [(u32, &'a str)],
    /// The last index that was read. Continue after it.
    pub next: u32,
    /// The last index of the journal.
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
        for (nth, (index, block)) in self.blocks.iter().enumerate() {
            if nth > 0 {
                out.push(',');
            }
            self.push_block(out, *index, block);
        }
        out.push(']');
    }

    /// Appends `"dev.longhaul/output":{…}`.
    pub(crate) fn push_position(&self, out: &mut String) {
        let (next, total) = (self.next, self.total);
        out.push_str(&format!(r#""{OUTPUT_PAGE}":{{"next":{next},"total":{total}}}"#));
    }

    /// Appends a block under the URI that reads it alone. A block that is neither text nor binary is written as JSON text.
    fn push_block(&self, out: &mut String, index: u32, text: &str) {
        let mut block = Block::default();
        let is_read = block.fill(text).is_ok();
        let kind = block.kind.filter(|_| is_read).and_then(json::string);
        if let (Some("resource"), Some(resource)) = (kind.as_deref(), block.resource) {
            // An embedded resource has its own URI.
            return out.push_str(resource.get());
        }
        let uri = TaskUri {
            from: Some(u64::from(index) - 1),
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
