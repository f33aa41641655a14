//! `server.json`, for a registry of MCP servers. What is published there must be named by the packages, too.

use super::{DistError, HOMEPAGE, VERSION, write};
use serde_json::{Value, json};
use std::path::Path;

/// The name in the registry: `mcpName` of the package for npm, and `mcp-name` in the description of the wheel.
pub(super) const NAME: &str = "example.longhaul/longhaul";
/// The registry takes no more characters.
const DESCRIPTION: &str = "Your commands as tools whose calls survive disconnects, crashes and restarts, as MCP Tasks";

/// Writes `server.json`: `longhaul stdio FILE`, from either package.
pub(super) fn make(out: &Path) -> Result<(), DistError> {
    let package = |kind: &str, runner: &str| {
        json!({
            "registryType": kind,
            "identifier": "longhaul",
            "version": VERSION,
            "runtimeHint": runner,
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "positional", "value": "stdio"},
                {
                    "type": "positional",
                    "valueHint": "configuration",
                    "description": "The file with your tools, such as /home/you/jobs.toml",
                    "format": "filepath",
                    "isRequired": true,
                },
            ],
        })
    };
    let server: Value = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": NAME,
        "title": "Longhaul",
        "description": DESCRIPTION,
        "version": VERSION,
        "websiteUrl": HOMEPAGE,
        "packages": [package("npm", "npx"), package("pypi", "uvx")],
    });
    write(&out.join("server.json"), format!("{server:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_short_enough_for_the_registry() {
        assert!(DESCRIPTION.len() <= 100, "{}", DESCRIPTION.len());
    }
}
