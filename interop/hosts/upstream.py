"""An MCP server of 2025-11-25 on stdio, for `longhaul wrap`: tools that wait, ask the user, and answer with an image.

usage: python3 upstream.py LOG
"""

import json
import sys
import threading
import time

from work import note

# A red dot of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
QUESTION = {"type": "object", "properties": {"sure": {"type": "boolean", "title": "Sure?"}}, "required": ["sure"]}
SECONDS = {"type": "object", "properties": {"seconds": {"type": "integer"}}}
TOOLS = {"quick": SECONDS, "slow": SECONDS, "ask": {"type": "object"}, "image": {"type": "object"}}

lock = threading.Lock()
asked = {}


def send(**message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(id, words):
    send(id=id, result={"content": [{"type": "text", "text": words}]})


def work(id, tool, seconds):
    note("began", tool, sys.argv[1])
    time.sleep(seconds)
    note("ended", tool, sys.argv[1])
    text(id, f"result-of-{tool}")


def call(id, params):
    match params["name"]:
        case "ask" if "elicitation" not in client:
            text(id, "answer-is-impossible")
        case "ask":
            asked[f"question-{id}"] = id
            params = {"message": "Shall it go on?", "requestedSchema": QUESTION, "mode": "form"}
            send(id=f"question-{id}", method="elicitation/create", params=params)
        case "image":
            picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            send(id=id, result={"content": [{"type": "text", "text": "result-of-image"}, picture]})
        case tool:
            seconds = (params.get("arguments") or {}).get("seconds", 0)
            threading.Thread(target=work, args=(id, tool, seconds), daemon=True).start()


client = {}
for line in sys.stdin:
    message = json.loads(line)
    match message:
        case {"method": "initialize", "id": id, "params": params}:
            client = params["capabilities"]
            send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "jobs", "version": "1"}})
        case {"method": "tools/list", "id": id}:
            send(id=id, result={"tools": [{"name": name, "description": f"The tool {name}", "inputSchema": schema} for name, schema in TOOLS.items()]})
        case {"method": "tools/call", "id": id, "params": params}:
            call(id, params)
        case {"method": "ping", "id": id}:
            send(id=id, result={})
        case {"method": _, "id": id}:
            send(id=id, error={"code": -32601, "message": "unknown method"})
        case {"id": id} if id in asked:
            text(asked.pop(id), "answer-is-" + message.get("result", {}).get("action", "error"))
