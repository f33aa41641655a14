//! The names that clients have for the tools of a server: with the server's name in front, or without.

use super::usable_name;
use longhaul_core::ToolPattern;

/// Before the name of a server whose tool is meant. Behind the first two stands a server in any case.
const PREFIXES: [&str; 4] = ["mcp__", "@", "mcp_", ""];
const SEPARATORS: [&str; 6] = ["__", "_", "-", ".", "/", ":"];

/// The tool of this server that a name with a server in front means; `*` for all of them.
pub(super) fn of_server<'a>(named: &'a str, server: &str) -> Option<&'a str> {
    let usable = usable_name(server);
    PREFIXES.into_iter().find_map(|prefix| {
        let rest = named.strip_prefix(prefix)?;
        let any = (prefix == PREFIXES[0]).then_some("*");
        let mut servers = [server, &usable].into_iter().chain(any);
        let tool = servers.find_map(|server| match rest.strip_prefix(server)? {
            "" if !prefix.is_empty() => Some("*"),
            "*" => Some("*"),
            rest => SEPARATORS.iter().find_map(|separator| rest.strip_prefix(separator)),
        });
        tool.filter(|tool| !tool.is_empty())
    })
}

/// Whether a server stands in front of the tool.
pub(super) fn names_server(named: &str) -> bool {
    PREFIXES[..2].iter().any(|prefix| named.starts_with(prefix))
}

/// What a client's name of a tool means on this server, without the arguments that Gemini CLI allows behind it. A tool may be called as if the server stood in front.
pub(super) fn spellings<'a>(named: &'a str, server: &str) -> Vec<&'a str> {
    let named = named.split('(').next().unwrap_or(named);
    let tool = of_server(named, server);
    let is_usable = tool.is_none() || named.parse::<ToolPattern>().is_ok();
    let own = Some(named).filter(|_| !names_server(named) && is_usable);
    own.into_iter().chain(tool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_stand_in_front_of_its_tool() {
        let cases: [(&str, &[&str]); 14] = [
            ("write", &["write"]),
            ("write(x)", &["write"]),
            ("hub-write", &["hub-write", "write"]),
            ("hub__write", &["hub__write", "write"]),
            ("hub.write", &["hub.write", "write"]),
            ("hub*", &["hub*", "*"]),
            ("mcp_hub_write", &["mcp_hub_write", "write"]),
            ("mcp__hub__write", &["write"]),
            ("mcp__hub", &["*"]),
            ("mcp__*__write", &["write"]),
            ("mcp__other__write", &[]),
            ("@hub", &["*"]),
            ("@hub/write", &["write"]),
            ("hub", &["hub"]),
        ];
        for (named, expected) in cases {
            assert_eq!(spellings(named, "hub"), expected, "{named}");
        }
        assert_eq!(spellings("my hub-write", "my hub"), ["write"]);
        assert_eq!(spellings("my_hub-write", "my hub"), ["my_hub-write", "write"]);
    }
}
