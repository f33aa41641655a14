//! The server's name and version, as MCP's `Implementation`.

use crate::{json, meta, task::lineage};
use longhaul_core::Task;

/// The server's name and version, pre-rendered as JSON for responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    title: String,
    /// `{"name":…,"version":…}`
    name: String,
    /// The same with the details.
    info: String,
    /// `,"_meta":{"io.modelcontextprotocol/serverInfo":…}`
    meta_member: String,
    instructions: Option<String>,
}

impl ServerInfo {
    /// A server with this name and version.
    pub fn new(name: &str, version: &str) -> Self {
        let mut info = String::from(r#"{"name":"#);
        json::push_string(&mut info, name);
        info.push_str(r#","version":"#);
        json::push_string(&mut info, version);
        info.push('}');
        let meta_member = format!(r#","_meta":{{"{}":{info}}}"#, meta::SERVER_INFO);
        Self {
            title: name.to_owned(),
            name: info.clone(),
            info,
            meta_member,
            instructions: None,
        }
    }

    /// Adds a title, a website and icons (JSON text: an array). They appear in `initialize` and `server/discover` only.
    ///
    /// ```
    /// use longhaul_wire::ServerInfo;
    /// let server_info = ServerInfo::new("files", "1.0.0").with_details(Some("Files"), None, None);
    /// assert_eq!(server_info.info(), r#"{"name":"files","version":"1.0.0","title":"Files"}"#);
    /// ```
    #[must_use]
    pub fn with_details(mut self, title: Option<&str>, website: Option<&str>, icons: Option<&str>) -> Self {
        if let Some(title) = title {
            title.clone_into(&mut self.title);
        }
        self.info.pop();
        for (member, text) in [(r#","title":"#, title), (r#","websiteUrl":"#, website)] {
            if let Some(text) = text {
                self.info.push_str(member);
                json::push_string(&mut self.info, text);
            }
        }
        if let Some(icons) = icons {
            self.info.push_str(r#","icons":"#);
            self.info.push_str(icons);
        }
        self.info.push('}');
        self
    }

    /// Shows another server, with the details of this JSON text, in `initialize` and `server/discover`.
    #[must_use]
    pub fn presenting(self, info: impl Into<String>) -> Self {
        Self {
            info: info.into(),
            ..self
        }
    }

    /// The instructions for the model on how to use the server.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// Adds instructions for the model on how to use the server.
    #[must_use]
    pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
        Self {
            instructions: Some(instructions.into()),
            ..self
        }
    }

    /// The name for people: the title if there is one.
    ///
    /// ```
    /// use longhaul_wire::ServerInfo;
    /// let server_info = ServerInfo::new("files", "1.0.0");
    /// assert_eq!(server_info.title(), "files");
    /// assert_eq!(server_info.with_details(Some("Files"), None, None).title(), "Files");
    /// ```
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The `Implementation` object without the details: what every result shows.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The `Implementation` object as JSON text, with the details.
    pub fn info(&self) -> &str {
        &self.info
    }

    /// Appends `,"_meta":{…serverInfo…}`: the last member of every modern result Longhaul writes.
    pub(crate) fn push_meta(&self, out: &mut String) {
        out.push_str(&self.meta_member);
    }

    /// Appends the same `_meta` with further members, which `more` appends.
    pub(crate) fn push_meta_with(&self, out: &mut String, more: impl FnOnce(&mut String)) {
        self.push_meta(out);
        out.pop();
        out.push(',');
        more(out);
        out.push('}');
    }

    /// Appends the same `_meta`, with the parent and root of `task`, and how its command ended.
    pub(crate) fn push_meta_of(&self, out: &mut String, task: &Task, exit: Option<&str>) {
        self.push_meta(out);
        out.pop();
        lineage::push_more_members(out, task, exit);
        out.push('}');
    }

    /// Appends the same `_meta`, with the details of the server.
    pub(crate) fn push_full_meta(&self, out: &mut String) {
        out.push_str(r#","_meta":{"#);
        json::push_string(out, meta::SERVER_INFO);
        out.push(':');
        out.push_str(&self.info);
        out.push('}');
    }

    /// Appends `,"instructions":…` if there are any.
    pub(crate) fn push_instructions(&self, out: &mut String) {
        if let Some(instructions) = &self.instructions {
            out.push_str(r#","instructions":"#);
            json::push_string(out, instructions);
        }
    }
}
