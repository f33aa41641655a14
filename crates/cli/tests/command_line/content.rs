//! A server of resources and prompts, without a tool, as clients of both eras see it.

use super::support::*;
use longhaul_schemas::CheckingProxy;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::symlink,
    thread,
};

const CONTENT: &str = r#"
[server]
name = "handbook"
title = "The handbook"
website_url = "https://example.com/handbook"
icons = [{ src = "logo.png", sizes = ["48x48"] }]

[[resource]]
name = "changes"
title = "Changes"
uri = "docs://changes"
file = "CHANGES"
mime_type = "text/markdown"

[[resource]]
name = "pages"
description = "The pages of the handbook"
uri = "docs://pages/{+path}"
folder = "pages"
include = ["**/*.md", "*.bin"]
max_size = "1KiB"

[[prompt]]
name = "review"
title = "Review a change"
description = "Reviews code"
file = "review.md"
arguments = [
  { name = "language", description = "of the code", required = true, choices = ["Rust", "Ruby", "Go"] },
  { name = "focus" },
]
"#;

/// An era, as its clients speak.
#[derive(Clone, Copy, PartialEq)]
enum Era {
    Legacy,
    Modern,
}

struct Content {
    served: Served,
    session: String,
}

impl Content {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("pages/guide")).unwrap();
        for (file, text) in [
            ("jobs.toml", CONTENT),
            ("logo.png", "no real image"),
            ("CHANGES", "# 1.0\n"),
            ("secret.md", "secret"),
            ("pages/first page.md", "first"),
            ("pages/guide/deep.md", "deep"),
            ("pages/.hidden.md", "hidden"),
            ("pages/left_out.txt", "left out"),
            ("review.md", "Review this {language} code. {focus}\nUse {{braces}}."),
        ] {
            fs::write(path.join(file), text).unwrap();
        }
        fs::write(path.join("pages/bytes.bin"), [0xff, 0]).unwrap();
        fs::write(path.join("pages/large.md"), "x".repeat(1025)).unwrap();
        symlink("../secret.md", path.join("pages/out.md")).unwrap();
        let (child, address) = serve(path, "127.0.0.1:0");
        let proxy = CheckingProxy::before(address).unwrap();
        let served = Served {
            folder,
            child,
            address,
            url: format!("http://{}/mcp", proxy.address()),
            _proxy: proxy,
        };
        let mut content = Self {
            served,
            session: String::new(),
        };
        let client =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let (head, _) = content.send("", "initialize", client);
        let session = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "))
            .unwrap();
        content.session = session.trim().to_owned();
        content
    }

    fn send(&self, headers: &str, method: &str, params: Value) -> (String, Value) {
        let host = self
            .served
            .url
            .strip_prefix("http://")
            .unwrap()
            .strip_suffix("/mcp")
            .unwrap();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut connection = TcpStream::connect(host).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all([&head, &*body].concat().as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let message = body
            .lines()
            .map(|line| line.strip_prefix("data: ").unwrap_or(line))
            .find(|line| line.starts_with('{'));
        let message = message.unwrap_or_else(|| panic!("no message in {answer}"));
        (head.to_owned(), serde_json::from_str(message).unwrap())
    }

    fn request(&self, era: Era, method: &str, mut params: Value) -> Value {
        let headers = match era {
            Era::Legacy => format!(
                "Mcp-Session-Id: {}\r\nMCP-Protocol-Version: 2025-11-25\r\n",
                self.session
            ),
            Era::Modern => {
                let name = ["name", "uri"].iter().find_map(|name| params[*name].as_str());
                let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                format!("{name}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n")
            }
        };
        self.send(&headers, method, params).1
    }

    fn read(&self, era: Era, uri: &str) -> Value {
        self.request(era, "resources/read", json!({"uri": uri}))
    }

    fn uris(&self, era: Era) -> Vec<String> {
        let listed = self.request(era, "resources/list", json!({}));
        let listed = listed["result"]["resources"].as_array().unwrap().iter();
        let uris = listed.map(|one| one["uri"].as_str().unwrap().to_owned());
        uris.filter(|uri| uri.starts_with("docs:")).collect()
    }
}

#[test]
fn files_are_resources_in_both_eras() {
    let content = Content::start();
    for era in [Era::Legacy, Era::Modern] {
        assert_eq!(
            content.uris(era),
            [
                "docs://changes",
                "docs://pages/bytes.bin",
                "docs://pages/first%20page.md",
                "docs://pages/large.md",
                "docs://pages/guide/deep.md",
            ]
        );
        let templates = content.request(era, "resources/templates/list", json!({}));
        templates.to_string().has(r#""uriTemplate":"docs://pages/{+path}""#);

        let first = |uri: &str| content.read(era, uri)["result"]["contents"][0].clone();
        let changes = first("docs://changes");
        assert_eq!(
            changes,
            json!({"uri": "docs://changes", "mimeType": "text/markdown", "text": "# 1.0\n"})
        );
        let page = first("docs://pages/first%20page.md");
        assert_eq!(
            (&page["text"], &page["mimeType"]),
            (&json!("first"), &json!("text/markdown"))
        );
        let bytes = first("docs://pages/bytes.bin");
        assert_eq!(
            (&bytes["blob"], &bytes["mimeType"]),
            (&json!("/wA="), &json!("application/octet-stream"))
        );

        let not_found = if era == Era::Legacy { -32002 } else { -32602 };
        for path in [
            "none.md",
            "../secret.md",
            "guide/%2e%2e/%2e%2e/secret.md",
            "out.md",
            ".hidden.md",
            "left_out.txt",
            "guide",
        ] {
            let refused = content.read(era, &format!("docs://pages/{path}"));
            assert_eq!(refused["error"]["code"], not_found, "{path}: {refused}");
        }
        let large = content.read(era, "docs://pages/large.md");
        assert_eq!(large["error"]["code"], -32603, "{large}");
        large.to_string().has("it has more than 1 KiB").has("max_size");
    }
    let subscribed = content.request(Era::Legacy, "resources/subscribe", json!({"uri": "docs://changes"}));
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    let discovered = content.request(Era::Modern, "server/discover", json!({}));
    discovered
        .to_string()
        .has(r#""title":"The handbook""#)
        .has("https://example.com/handbook")
        .has("data:image/png;base64,");
}

#[test]
fn prompts_are_filled_in_in_both_eras() {
    let content = Content::start();
    for era in [Era::Legacy, Era::Modern] {
        let get =
            |arguments: Value| content.request(era, "prompts/get", json!({"name": "review", "arguments": arguments}));
        let listed = content.request(era, "prompts/list", json!({}));
        let prompt = &listed["result"]["prompts"][0];
        assert_eq!(prompt["title"], "Review a change");
        assert_eq!(
            prompt["arguments"][0],
            json!({"name": "language", "description": "of the code", "required": true})
        );

        let filled = get(json!({"language": "Rust", "focus": "Look at {names}."}));
        let message = json!({"role": "user", "content": {"type": "text", "text": "Review this Rust code. Look at {names}.\nUse {braces}."}});
        assert_eq!(filled["result"]["messages"], json!([message]));
        let without = get(json!({"language": "Go"}));
        let text = &without["result"]["messages"][0]["content"]["text"];
        assert_eq!(*text, "Review this Go code. \nUse {braces}.");

        for (arguments, why) in [
            (json!({}), "needs the argument language"),
            (
                json!({"language": "Go", "tone": "kind"}),
                "has no argument tone; it takes language, focus",
            ),
            (json!({"language": "C"}), "must be one of: Rust, Ruby, Go"),
        ] {
            let refused = get(arguments);
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            refused["error"]["message"].as_str().unwrap().has(why);
        }
        let complete = |reference: Value, name: &str, value: &str| {
            let params = json!({"ref": reference, "argument": {"name": name, "value": value}});
            content.request(era, "completion/complete", params)["result"]["completion"]["values"].clone()
        };
        let review = json!({"type": "ref/prompt", "name": "review"});
        assert_eq!(complete(review, "language", "ru"), json!(["Rust", "Ruby"]));
        let pages = json!({"type": "ref/resource", "uri": "docs://pages/{+path}"});
        assert_eq!(complete(pages, "path", "gui"), json!(["guide/deep.md"]));
    }
}

/// A file is read anew for each request; the lists and the prompts when the configuration is.
#[test]
fn a_hangup_lists_new_files_and_reads_prompts_again() {
    let content = Content::start();
    let folder = content.served.folder.path();
    fs::write(folder.join("CHANGES"), "# 2.0\n").unwrap();
    fs::write(folder.join("pages/new.md"), "new").unwrap();
    fs::remove_file(folder.join("pages/large.md")).unwrap();
    fs::write(folder.join("review.md"), "Look at this {language} code.").unwrap();
    content.read(Era::Modern, "docs://changes").to_string().has("# 2.0");
    content
        .read(Era::Modern, "docs://pages/new.md")
        .to_string()
        .has("\"text\":\"new\"");
    assert!(!content.uris(Era::Legacy).contains(&"docs://pages/new.md".to_owned()));

    kill_process(Pid::from_child(&content.served.child), Signal::HUP).unwrap();
    let is_read_again = || {
        let uris = content.uris(Era::Legacy);
        let has = |uri: &str| uris.iter().any(|one| one == uri);
        has("docs://pages/new.md") && !has("docs://pages/large.md")
    };
    while !is_read_again() {
        thread::yield_now();
    }
    let review = json!({"name": "review", "arguments": {"language": "Go"}});
    let filled = content.request(Era::Modern, "prompts/get", review);
    filled.to_string().has("Look at this Go code.");
}
