"""The hosts: how each is set up in an empty home with one MCP server and the scripted model, and how it is started.

A server is either {"command": [...]} or {"url": "..."}. No host gets anybody's credentials: the keys are made up.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

SERVER = "jobs"
KEY = "sk-made-up-key-of-nobody-0123456789"
MODEL = "scripted"


@dataclass
class Started:
    """How a host is started: with a prompt, and to go on with its last session."""

    command: list
    resumed: list
    env: dict
    # The host is used on a terminal. Else it ends by itself when the model has nothing more to do.
    on_terminal: bool = False


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")


def program_of(server):
    return {"command": server["command"][0], "args": server["command"][1:]}


def claude(site, server, on_terminal):
    entry = {"type": "http", "url": server["url"]} if "url" in server else program_of(server)
    write(site.home / "mcp.json", {"mcpServers": {SERVER: entry}})
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    known = {"hasCompletedOnboarding": True, "theme": "dark", "autoUpdates": False, "projects": {str(site.work): project}}
    write(site.home / ".claude.json", known | {"customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}})
    write(site.home / ".claude/settings.json", {"permissions": {"allow": [f"mcp__{SERVER}"]}, "skipDangerousModePermissionPrompt": True})
    env = {
        "ANTHROPIC_BASE_URL": site.model.url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }
    program = next(site.packages.glob("@anthropic-ai/claude-code-linux-*/claude"))
    line = [program, "--mcp-config", site.home / "mcp.json", "--strict-mcp-config"]
    line += [] if on_terminal else ["-p"]
    return Started(line, [*line, "--continue"], env, on_terminal)


def codex(site, server):
    lines = [f'model = "{MODEL}"', f'model_provider = "{MODEL}"', 'approval_policy = "never"', 'sandbox_mode = "danger-full-access"']
    lines += ["check_for_update_on_startup = false", "[analytics]", "enabled = false", f"[model_providers.{MODEL}]", f'name = "{MODEL}"']
    lines += [f'base_url = "{site.model.url}/v1"', 'env_key = "SCRIPTED_KEY"', 'wire_api = "responses"', f"[mcp_servers.{SERVER}]"]
    if "url" in server:
        lines.append(f'url = "{server["url"]}"')
    else:
        lines += [f"command = {json.dumps(server['command'][0])}", f"args = {json.dumps(server['command'][1:])}"]
    # Required: the first turn waits for the tools.
    lines += ['default_tools_approval_mode = "approve"', "required = true"]
    write(site.home / ".codex/config.toml", "\n".join([*lines, ""]))
    program = next((site.packages / "@openai").glob("codex-linux-*/vendor/*/bin/codex"))
    options = ["--skip-git-repo-check", "--json"]
    return Started([program, "exec", *options], [program, "exec", "resume", "--last", *options], {"SCRIPTED_KEY": KEY})


def opencode(site, server):
    entry = {"type": "remote", "url": server["url"], "oauth": False} if "url" in server else {"type": "local", "command": server["command"]}
    options = {"baseURL": f"{site.model.url}/v1", "apiKey": KEY}
    model = {"name": MODEL, "tool_call": True, "limit": {"context": 1_000_000, "output": 8_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": MODEL, "options": options, "models": {MODEL: model}}
    settings = {"provider": {MODEL: provider}, "model": f"{MODEL}/{MODEL}", "small_model": f"{MODEL}/{MODEL}"}
    settings["mcp"] = {SERVER: entry | {"enabled": True}}
    write(site.home / ".config/opencode/opencode.json", settings | {"autoupdate": False, "share": "disabled"})
    env = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
    # Without its install script it is in the package for this machine; the baseline runs on every processor.
    program = max(site.packages.glob("opencode-linux-*/bin/opencode"))
    line = [program, "run", "--format", "json"]
    return Started(line, [*line, "--continue"], env)


def node(site, script):
    return [site.node, site.packages / script]


def gemini(site, server):
    entry = {"httpUrl": server["url"]} if "url" in server else program_of(server)
    settings = {"mcpServers": {SERVER: entry | {"trust": True}}}
    settings |= {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}}
    settings |= {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}, "general": {"enableAutoUpdate": False}}
    write(site.home / ".gemini/settings.json", settings)
    env = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": site.model.url, "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}
    line = [*node(site, "@google/gemini-cli/bundle/gemini.js"), "-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-o", "json"]
    return Started([*line, "-p"], [*line, "--resume", "latest", "-p"], env)


def qwen(site, server):
    entry = {"httpUrl": server["url"]} if "url" in server else program_of(server)
    settings = {"mcpServers": {SERVER: entry | {"trust": True}}, "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}
    settings |= {"general": {"enableAutoUpdate": False}, "security": {"auth": {"selectedType": "openai"}}}
    write(site.home / ".qwen/settings.json", settings)
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{site.model.url}/v1", "OPENAI_MODEL": MODEL, "QWEN_CODE_NO_RELAUNCH": "true"}
    line = [*node(site, "@qwen-code/qwen-code/cli.js"), "--approval-mode", "yolo", "-o", "json"]
    return Started(line, [*line, "--continue"], env)


HOSTS = {
    "claude": lambda site, server: claude(site, server, on_terminal=True),
    "claude-print": lambda site, server: claude(site, server, on_terminal=False),
    "codex": codex,
    "opencode": opencode,
    "gemini": gemini,
    "qwen": qwen,
}


def environment(site, started):
    """A clean one: nothing of whoever runs this."""
    path = os.pathsep.join([str(Path(site.node).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    clean = {"HOME": site.home, "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/sh"}
    return {name: str(value) for name, value in (clean | started.env).items()}
