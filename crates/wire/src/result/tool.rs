//! A tool in a `tools/list` result, as both generations write it.

use crate::json::{self, Edit, splice::splice};
use longhaul_core::TaskPolicy;

/// A tool in a list. JSON texts are written unchanged.
#[derive(Debug, Clone, Copy)]
pub struct ToolEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its display name.
    pub title: Option<&'a str>,
    /// What it does.
    pub description: Option<&'a str>,
    /// JSON text: a schema with `"type":"object"`.
    pub input_schema: &'a str,
    /// The schema of its structured output.
    pub output_schema: OutputSchema<'a>,
    /// JSON text: an object of hints.
    pub annotations: Option<&'a str>,
    /// JSON text: an array of icons.
    pub icons: Option<&'a str>,
    /// JSON text: the `_meta` object.
    pub meta: Option<&'a str>,
    /// JSON text: the whole tool object of another server, which is written in place of all members above but the name, and a changed schema of its output.
    pub listed: Option<&'a str>,
    /// Which of its calls become tasks.
    pub policy: TaskPolicy,
}

/// The schema of a tool's structured output.
#[derive(Debug, Clone, Copy)]
pub enum OutputSchema<'a> {
    /// None is shown, not even that of [`ToolEntry::listed`].
    None,
    /// JSON text: as the tool has it.
    OfTool(&'a str),
    /// JSON text: one that also allows what is answered in place of the tool's output.
    Changed(&'a str),
}

impl<'a> OutputSchema<'a> {
    /// Its text.
    pub(crate) const fn text(self) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::OfTool(text) | Self::Changed(text) => Some(text),
        }
    }
}

impl ToolEntry<'_> {
    /// Appends the tool object of another server, with the name of this entry and this edit. False, and nothing is appended, if there is none.
    pub(crate) fn push_listed(&self, out: &mut String, execution: Edit<'_>) -> bool {
        let Some(listed) = self.listed else { return false };
        let mut name = String::new();
        json::push_string(&mut name, self.name);
        let (name, schema) = (Edit::Set("name", &name), "outputSchema");
        match self.output_schema {
            OutputSchema::None => splice(out, listed, &[name, execution, Edit::Remove(schema)]),
            OutputSchema::OfTool(_) => splice(out, listed, &[name, execution]),
            OutputSchema::Changed(text) => splice(out, listed, &[name, execution, Edit::Set(schema, text)]),
        }
        .is_ok()
    }

    /// Appends the members that both generations write, without braces.
    pub(crate) fn push_members(&self, out: &mut String) {
        out.push_str(r#""name":"#);
        json::push_string(out, self.name);
        let texts = [(r#","title":"#, self.title), (r#","description":"#, self.description)];
        for (member, text) in texts {
            if let Some(text) = text {
                out.push_str(member);
                json::push_string(out, text);
            }
        }
        out.push_str(r#","inputSchema":"#);
        out.push_str(self.input_schema);
        let raws = [
            (r#","outputSchema":"#, self.output_schema.text()),
            (r#","annotations":"#, self.annotations),
            (r#","icons":"#, self.icons),
            (r#","_meta":"#, self.meta),
        ];
        for (member, raw) in raws {
            if let Some(raw) = raw {
                out.push_str(member);
                out.push_str(raw);
            }
        }
    }
}
