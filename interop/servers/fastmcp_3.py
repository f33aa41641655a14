"""FastMCP 3 as a server: the Tasks of 2025-11-25. A task has at most one open question, which comes on the push stream."""

import asyncio

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from serve import main

server = FastMCP("fastmcp-3")


@server.tool
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@server.tool
async def test_tool_with_progress(context: Context) -> str:
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100)
    return "Done."


@server.tool
async def test_elicitation(message: str, context: Context) -> str:
    answer = await context.elicit(message, response_type=str)
    return f"{answer.action}: {answer.data}"


@server.tool
async def test_sampling(prompt: str, context: Context) -> str:
    return (await context.sample(prompt)).text


@server.tool(task=True)
async def slow_compute(seconds: float, label: str) -> str:
    await asyncio.sleep(seconds)
    return f"Computed {label}"


@server.tool(task=True)
async def confirm_delete(filename: str, context: Context) -> str:
    answer = await context.elicit(f"Delete {filename}?", response_type=bool)
    agreed = answer.action == "accept" and answer.data
    return f"{'Deleted' if agreed else 'Kept'} {filename}."


@server.tool(task=True)
async def confirm_twice(filename: str, pause: float, context: Context) -> str:
    first = await context.elicit(f"Delete {filename}?", response_type=bool)
    await asyncio.sleep(pause)
    second = await context.elicit(f"Really delete {filename}?", response_type=bool)
    agreed = all(answer.action == "accept" and answer.data for answer in (first, second))
    return f"{'Deleted' if agreed else 'Kept'} {filename}."


@server.tool(task=True)
async def failing_job() -> str:
    raise ToolError("The job failed, as it always does.")


if __name__ == "__main__":
    main(lambda: server.run(show_banner=False), server.http_app)
