"""Runs a server of a script over standard input and output, or over HTTP on a free port, which is printed as a URL."""

import argparse
import socket

import uvicorn


def main(over_stdio, http_app):
    """`--stdio`: calls `over_stdio`. Otherwise serves the ASGI application that `http_app` returns; its endpoint is `/mcp`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stdio", action="store_true")
    if parser.parse_args().stdio:
        over_stdio()
        return
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    # From here on connections wait until the server accepts them.
    print(f"http://{host}:{port}/mcp", flush=True)
    config = uvicorn.Config(http_app(), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
