//! The hosts whose configuration files are known.

use super::document::Language;
use crate::args::Host;
use std::{env, path::PathBuf};

impl Host {
    /// As people call it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::VsCode => "Visual Studio Code",
            Self::Zed => "Zed",
            Self::Windsurf => "Windsurf",
            Self::GeminiCli => "Gemini CLI",
            Self::Codex => "Codex",
            Self::Opencode => "opencode",
            Self::QwenCode => "Qwen Code",
        }
    }

    /// The file of this user; `None` without a home folder.
    pub(super) fn file(self) -> Option<PathBuf> {
        let home = PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty())?);
        let is_macos = cfg!(target_os = "macos");
        let configuration = env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute() && !is_macos)
            .unwrap_or_else(|| home.join(".config"));
        let applications = match is_macos {
            true => home.join("Library/Application Support"),
            false => configuration.clone(),
        };
        Some(match self {
            Self::ClaudeDesktop => applications.join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode => home.join(".claude.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::VsCode => applications.join("Code/User/mcp.json"),
            Self::Zed => configuration.join("zed/settings.json"),
            Self::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
            Self::GeminiCli => home.join(".gemini/settings.json"),
            Self::QwenCode => home.join(".qwen/settings.json"),
            // On macOS, too.
            Self::Opencode => {
                let folder = env::var_os("XDG_CONFIG_HOME")
                    .map(PathBuf::from)
                    .filter(|folder| folder.is_absolute());
                let folder = folder.unwrap_or_else(|| home.join(".config")).join("opencode");
                let with_comments = folder.join("opencode.jsonc");
                match with_comments.exists() {
                    true => with_comments,
                    false => folder.join("opencode.json"),
                }
            }
            Self::Codex => {
                let codex = env::var_os("CODEX_HOME").map(PathBuf::from);
                codex.unwrap_or_else(|| home.join(".codex")).join("config.toml")
            }
        })
    }

    pub(super) fn language(self) -> Language {
        match self {
            Self::Codex => Language::Toml,
            _ => Language::Json,
        }
    }

    /// The members that hold servers. `*` stands for any name.
    pub(super) fn places(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::ClaudeCode => &[&["mcpServers"], &["projects", "*", "mcpServers"]],
            // In its settings they are in `mcp`.
            Self::VsCode => &[&["servers"], &["mcpServers"], &["mcp", "servers"]],
            Self::Zed => &[&["context_servers"]],
            Self::Codex => &[&["mcp_servers"]],
            // Its next release has them in `servers`.
            Self::Opencode => &[&["mcp"], &["mcp", "servers"]],
            Self::ClaudeDesktop | Self::Cursor | Self::Windsurf | Self::GeminiCli | Self::QwenCode => {
                &[&["mcpServers"]]
            }
        }
    }
}
