"""Runs a server of a script over standard input and output, or over HTTP on a free port, which is printed as a URL."""

import argparse
import socket

import uvicorn


def main(over_stdio, http_app, sse_app=None):
    """
    `--stdio`: calls `over_stdio`. `--sse`: serves the ASGI application that `sse_app` returns; its endpoint is `/sse`. Otherwise serves the one that
    `http_app` returns; its endpoint is `/mcp`.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--sse", action="store_true")
    arguments = parser.parse_args()
    if arguments.stdio:
        over_stdio()
        return
    app, path = (sse_app, "sse") if arguments.sse else (http_app, "mcp")
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    # From here on connections wait until the server accepts them.
    print(f"http://{host}:{port}/{path}", flush=True)
    config = uvicorn.Config(app(), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
