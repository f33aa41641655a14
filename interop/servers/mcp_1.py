"""The official Python SDK, first major version, as a server: the Tasks of 2025-11-25. It keeps tasks by session."""

import contextlib
import itertools
import warnings

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from serve import main
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

# The SDK warns that version 2.0 has no Tasks.
warnings.filterwarnings("ignore", category=DeprecationWarning)

NUMBERS = itertools.count()
CONFIRMATION = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}

server = Server("mcp-python-1")
server.experimental.enable_tasks()


def tool(name, properties, tasks="forbidden"):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return types.Tool(name=name, inputSchema=schema, execution=types.ToolExecution(taskSupport=tasks))


TOOLS = [
    tool("greet", {"name": {"type": "string"}}),
    tool("test_tool_with_progress", {}),
    tool("test_elicitation", {"message": {"type": "string"}}),
    tool("test_sampling", {"prompt": {"type": "string"}}),
    tool("slow_compute", {"seconds": {"type": "number"}, "label": {"type": "string"}}, "optional"),
    tool("confirm_delete", {"filename": {"type": "string"}}, "required"),
    tool("confirm_twice", {"filename": {"type": "string"}, "pause": {"type": "number"}}, "required"),
    tool("multi_input", {}, "required"),
    tool("failing_job", {}, "required"),
    tool("raising_job", {}, "required"),
]


@server.list_tools()
async def list_tools():
    return TOOLS


def said(text, is_error=False):
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=is_error)


@server.call_tool()
async def call_tool(name, arguments):
    request = server.request_context
    if request.experimental.is_task:
        return await request.experimental.run_task(lambda task: TASKS[name](task, arguments))
    return await PLAIN[name](request, arguments)


async def greet(_request, arguments):
    return said(f"Hello, {arguments['name']}!")


async def report_progress(request, _arguments):
    for progress in (0, 50, 100):
        await request.session.send_progress_notification(
            request.meta.progressToken, progress, 100, related_request_id=str(request.request_id)
        )
    return said("Done.")


async def ask(request, arguments):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = await request.session.elicit(arguments["message"], schema, request.request_id)
    return said(f"{answer.action}: {answer.content}")


async def sample(request, arguments):
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=arguments["prompt"]))
    answer = await request.session.create_message([message], max_tokens=100, related_request_id=request.request_id)
    return said(answer.content.text)


async def slow_compute(task, arguments):
    await anyio.sleep(arguments["seconds"])
    return said(f"Computed {arguments['label']}")


async def confirm_delete(task, arguments):
    answer = await task.elicit(f"Delete {arguments['filename']}?", CONFIRMATION)
    agreed = answer.action == "accept" and answer.content["confirm"]
    return said(f"{'Deleted' if agreed else 'Kept'} {arguments['filename']}.")


async def confirm_twice(task, arguments):
    first = await task.elicit(f"Delete {arguments['filename']}?", CONFIRMATION)
    await anyio.sleep(arguments["pause"])
    second = await task.elicit(f"Really delete {arguments['filename']}?", CONFIRMATION)
    agreed = all(answer.action == "accept" and answer.content["confirm"] for answer in (first, second))
    return said(f"{'Deleted' if agreed else 'Kept'} {arguments['filename']}.")


def number_questions(session):
    """The SDK makes a question's id of the address of an object that it frees at once. So two open questions may have one id, and then the task waits for the first one
    without end, whatever its client does."""
    build = type(session)._build_elicit_form_request

    def build_numbered(*args, **named):
        question = build(session, *args, **named)
        return question.model_copy(update={"id": f"{question.id}-{next(NUMBERS)}"})

    session._build_elicit_form_request = build_numbered


async def multi_input(task, _arguments):
    number_questions(task._session)
    answers = {}

    async def confirm(key, message):
        answer = await task.elicit(message, CONFIRMATION)
        answers[key] = str(answer.content["confirm"]).lower()

    async with anyio.create_task_group() as questions:
        questions.start_soon(confirm, "file", "Delete the file?")
        questions.start_soon(confirm, "backup", "Delete its backup too?")
    return said(f"File: {answers['file']}, backup: {answers['backup']}.")


async def failing_job(_task, _arguments):
    return said("The job failed, as it always does.", is_error=True)


async def raising_job(_task, _arguments):
    raise RuntimeError("the disk is full")


PLAIN = {"greet": greet, "test_tool_with_progress": report_progress, "test_elicitation": ask, "test_sampling": sample}
TASKS = {"slow_compute": slow_compute, "confirm_delete": confirm_delete, "confirm_twice": confirm_twice, "multi_input": multi_input, "failing_job": failing_job, "raising_job": raising_job}


def over_stdio():
    async def serve():
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


def http_app():
    manager = StreamableHTTPSessionManager(server)

    @contextlib.asynccontextmanager
    async def lifespan(_app):
        async with manager.run():
            yield

    # As the examples of the SDK mount it: `/mcp` is redirected to `/mcp/`.
    return Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan)


def sse_app():
    transport = SseServerTransport("/messages/")

    async def connect(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])


if __name__ == "__main__":
    main(over_stdio, http_app, sse_app)
