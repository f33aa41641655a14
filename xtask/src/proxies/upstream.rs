//! The MCP server behind the proxies: it answers at once from memory, so that what is measured is the proxy.

use harness::clock;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    io::{self, BufRead, Write},
    sync::Arc,
    time::Duration,
};

/// The tool that answers after `millis` with the length of `text`.
pub(super) const TOOL: &str = "measure";

/// Serves one client over standard input and output.
pub(crate) fn run() -> io::Result<()> {
    let output = Arc::new(Mutex::new(io::stdout()));
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let pause = request["params"]["arguments"]["millis"].as_u64().unwrap_or_default();
        if pause == 0 {
            answer(&request, &output)?;
            continue;
        }
        let output = Arc::clone(&output);
        let work = move || {
            clock::pause(Duration::from_millis(pause));
            // The client may be gone.
            let _ = answer(&request, &output);
        };
        std::thread::Builder::new().name("slow call".to_owned()).spawn(work)?;
    }
    Ok(())
}

fn answer(request: &Value, output: &Mutex<io::Stdout>) -> io::Result<()> {
    let Some(id) = request.get("id") else {
        return Ok(());
    };
    let response = match result(request) {
        Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
    };
    let mut output = output.lock();
    writeln!(output, "{response}")?;
    output.flush()
}

fn result(request: &Value) -> Option<Value> {
    let params = &request["params"];
    Some(match request["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "upstream", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": TOOL,
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "millis": {"type": "integer"}},
                "required": ["text"],
            },
        }]}),
        "tools/call" => {
            let length = params["arguments"]["text"].as_str().map_or(0, str::len);
            json!({"content": [{"type": "text", "text": length.to_string()}]})
        }
        "ping" => json!({}),
        _ => return None,
    })
}
