"""FastMCP 4 with `fastmcp-tasks` as a server: the tasks of 2026-07-28."""

import asyncio

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from serve import main

CONFIRMATION = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}

server = FastMCP("fastmcp-4")
server.add_extension(TasksExtension())


def form(message, schema):
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def ask(**messages):
    requests = {key: form(message, CONFIRMATION) for key, message in messages.items()}
    return InputRequiredResult(input_requests=requests)


def confirmed(context, key):
    answer = context.input_responses[key]
    return answer.action == "accept" and answer.content["confirm"]


@server.tool
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@server.tool
async def test_tool_with_progress(context: Context) -> str:
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100)
    return "Done."


@server.tool
async def test_elicitation(message: str, context: Context):
    if not context.input_responses:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return InputRequiredResult(input_requests={"who": form(message, schema)})
    answer = context.input_responses["who"]
    return f"{answer.action}: {answer.content}"


@server.tool(task=True)
async def slow_compute(seconds: float, label: str) -> str:
    await asyncio.sleep(seconds)
    return f"Computed {label}"


@server.tool(task=True)
async def confirm_delete(filename: str, context: Context):
    if not context.input_responses:
        return ask(confirm=f"Delete {filename}?")
    return f"{'Deleted' if confirmed(context, 'confirm') else 'Kept'} {filename}."


@server.tool(task=True)
async def confirm_twice(filename: str, pause: float, context: Context):
    answers = context.input_responses or {}
    if not answers:
        return ask(first=f"Delete {filename}?")
    if "second" not in answers:
        await asyncio.sleep(pause)
        return ask(second=f"Really delete {filename}?")
    return f"{'Deleted' if confirmed(context, 'second') else 'Kept'} {filename}."


@server.tool(task=True)
async def multi_input(context: Context):
    if not context.input_responses:
        return ask(file="Delete the file?", backup="Delete its backup too?")
    file, backup = (str(confirmed(context, key)).lower() for key in ("file", "backup"))
    return f"File: {file}, backup: {backup}."


@server.tool(task=True)
async def failing_job() -> str:
    raise ToolError("The job failed, as it always does.")


if __name__ == "__main__":
    main(lambda: server.run(show_banner=False), server.http_app)
