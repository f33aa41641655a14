"""Connects to the server, runs the steps of a script and reports them: one line of JSON for each step, and one at the end."""

import argparse
import contextlib
import importlib.metadata
import json
import warnings

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

# The SDK warns that version 2.0 has no Tasks.
warnings.filterwarnings("ignore", category=DeprecationWarning)

# Longer than any step takes, in seconds.
STEP_TIMEOUT = 30

CLIENT = f"mcp {importlib.metadata.version('mcp')}"


class Steps:
    """Runs steps, continues after a failed one, and counts them."""

    def __init__(self):
        self.done = self.failed = 0

    async def run(self, step, *args):
        """Runs one step: a function. It fails if it raises or takes too long. Its name is reported."""
        line = {"client": CLIENT, "step": step.__name__.replace("_", " ")}
        try:
            with anyio.fail_after(STEP_TIMEOUT):
                await step(*args)
            line["ok"] = True
        except Exception as error:  # noqa: BLE001: every error is reported
            line |= {"ok": False, "error": f"{type(error).__name__} {error}".rstrip()}
            self.failed += 1
        self.done += 1
        print(json.dumps(line), flush=True)


@contextlib.asynccontextmanager
async def stdio_streams(program):
    """Starts a server and opens its streams.

    The client raises an error if the server sends a message while the client disconnects (python-sdk issue 1960); that error is ignored.
    """
    left = False
    try:
        async with stdio_client(program) as streams:
            yield streams
            left = True
    except* anyio.BrokenResourceError:
        if not left:
            raise


@contextlib.asynccontextmanager
async def connect(server, **callbacks):
    """A session with the server that the command line names."""
    async with contextlib.AsyncExitStack() as stack:
        if server.url:
            read, write, _ = await stack.enter_async_context(streamable_http_client(server.url))
        else:
            program = StdioServerParameters(command=server.stdio[0], args=server.stdio[1:])
            read, write = await stack.enter_async_context(stdio_streams(program))
        session = await stack.enter_async_context(ClientSession(read, write, **callbacks))
        yield session


def main(script):
    """Runs a script with the server named by `--url URL` or `--stdio PROGRAM [ARG …]`."""
    parser = argparse.ArgumentParser()
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url")
    where.add_argument("--stdio", nargs=argparse.REMAINDER)
    server = parser.parse_args()
    report(lambda steps: script(server, steps))


def report(script):
    """Runs a script, and ends with a line and a status."""
    steps = Steps()
    anyio.run(script, steps)
    print(json.dumps({"client": CLIENT, "done": steps.done}))
    raise SystemExit(1 if steps.failed else 0)
