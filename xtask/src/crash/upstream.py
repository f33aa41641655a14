"""An MCP server of 2025-11-25 without tasks that counts its calls: it appends a line to a file when a call begins. Needs nothing but Python.

usage: python3 upstream.py --calls FILE [--stdio]

Its tools are `note`, which is not idempotent, and `repeat`, which is. Both take a while, and return their token. Without `--stdio` it listens on a free port,
and prints its URL.
"""

import argparse
import http.server
import json
import os
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--calls", required=True)
parser.add_argument("--stdio", action="store_true")
asked = parser.parse_args()
calls = os.open(asked.calls, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

SCHEMA = {"type": "object", "properties": {"token": {"type": "string"}, "millis": {"type": "integer"}}, "required": ["token", "millis"]}
TOOLS = [
    {"name": "note", "inputSchema": SCHEMA},
    {"name": "repeat", "inputSchema": SCHEMA, "annotations": {"idempotentHint": True}},
]


def answer(request):
    """The response to a request; `None` for a notification."""
    if "id" not in request:
        return None
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "counting", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        arguments = params["arguments"]
        os.write(calls, f"{params['name']} {arguments['token']}\n".encode())
        time.sleep(arguments["millis"] / 1000)
        result = {"content": [{"type": "text", "text": arguments["token"]}]}
    elif method == "ping":
        result = {}
    else:
        return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def over_stdio():
    lock = threading.Lock()

    def handle(request):
        if response := answer(request):
            with lock:
                print(json.dumps(response), flush=True)

    for line in sys.stdin:
        threading.Thread(target=handle, args=(json.loads(line),), daemon=True).start()


class Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        response = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = json.dumps(response).encode() if response else b""
        self.send_response(200 if response else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *_):
        pass


if asked.stdio:
    over_stdio()
else:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    server.serve_forever()
