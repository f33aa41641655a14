//! What keeps work from going on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What keeps work from going on, the worst first; none if nothing is wrong.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Problems")]
pub struct ProblemsView {
    /// The problems, the worst first.
    pub problems: Vec<ProblemView>,
}

/// Something that keeps work from going on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Problem")]
pub struct ProblemView {
    /// What is wrong, and why.
    pub what: String,
    /// What to do.
    pub advice: String,
    /// The command of `longhaul admin` that does it, and what follows the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The page of the operator's site that shows more.
    pub page: String,
}

impl ProblemView {
    /// One without a command.
    pub fn new(what: String, advice: impl Into<String>, page: impl Into<String>) -> Self {
        Self {
            what,
            advice: advice.into(),
            command: None,
            page: page.into(),
        }
    }

    /// With the command that does what is advised.
    #[must_use]
    pub fn with_command(mut self, words: &[&str]) -> Self {
        self.command = Some(words.iter().map(ToString::to_string).collect());
        self
    }
}
