//! The audit log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The latest lines of the log, newest first. The server passes them on as they are.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditLines")]
pub struct AuditLines<L> {
    /// The lines that match the query.
    pub lines: Vec<L>,
    /// How many later lines could not be written.
    #[serde(default, skip_serializing_if = "is_none")]
    pub missing: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// A line of the log, as far as it is shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditLine {
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// What was done.
    pub action: String,
    /// How it went.
    pub outcome: String,
    /// The JSON-RPC code of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// By whom.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// The task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The tool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The URI of a resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The prompt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The method of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// The name of the legacy session.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The name that the client gives itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The version that the client gives itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_version: String,
    /// The address that the request came from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Details, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How many events like this one were left out.
    #[serde(skip_serializing_if = "is_none")]
    pub left_out: u64,
}

impl AuditLine {
    /// The result, with the code of a failure.
    pub fn outcome_in_words(&self) -> String {
        match self.code {
            Some(code) => format!("{} ({code})", self.outcome),
            None => self.outcome.clone(),
        }
    }

    /// The tool, the resource, the prompt or the method.
    pub fn about(&self) -> &str {
        first_of(&[&self.tool, &self.resource, &self.prompt, &self.method])
    }

    /// Where the request came from.
    pub fn from(&self) -> &str {
        first_of(&[&self.client, &self.address])
    }
}

fn first_of<'a>(texts: &[&'a String]) -> &'a str {
    texts.iter().find(|text| !text.is_empty()).map_or("", |text| text)
}
