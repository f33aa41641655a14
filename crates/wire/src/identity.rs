//! What the server calls itself.

use crate::{json, meta};

/// The server's name and version, ready to be put into answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `{"name":…,"version":…}`
    info: String,
    /// `,"_meta":{"io.modelcontextprotocol/serverInfo":…}`
    meta_member: String,
    instructions: Option<String>,
}

impl Identity {
    /// A server of this name and version.
    pub fn new(name: &str, version: &str) -> Self {
        let mut info = String::from(r#"{"name":"#);
        json::push_string(&mut info, name);
        info.push_str(r#","version":"#);
        json::push_string(&mut info, version);
        info.push('}');
        let meta_member = format!(r#","_meta":{{"{}":{info}}}"#, meta::SERVER_INFO);
        Self {
            info,
            meta_member,
            instructions: None,
        }
    }

    /// With guidance for the model on how to use the server.
    #[must_use]
    pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
        Self {
            instructions: Some(instructions.into()),
            ..self
        }
    }

    /// The `Implementation` object as JSON text.
    pub fn info(&self) -> &str {
        &self.info
    }

    /// Appends `,"_meta":{…serverInfo…}`: the last member of every modern result Longhaul writes (L-08).
    pub(crate) fn push_meta(&self, out: &mut String) {
        out.push_str(&self.meta_member);
    }

    /// Appends `,"instructions":…` if there are any.
    pub(crate) fn push_instructions(&self, out: &mut String) {
        if let Some(instructions) = &self.instructions {
            out.push_str(r#","instructions":"#);
            json::push_string(out, instructions);
        }
    }
}
