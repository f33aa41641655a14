"""The Tasks of 2025-11-25 with the Python client: call, poll, answer, cancel."""

import anyio
from mcp import types
from mcp.shared.exceptions import McpError

from steps import connect, main

RELATED_TASK = "io.modelcontextprotocol/related-task"


class User:
    """Answers the server's requests and records them."""

    def __init__(self):
        self.asked = []

    async def elicit(self, _context, params):
        self.asked.append(params)
        properties = params.requestedSchema["properties"]
        return types.ElicitResult(action="accept", content={name: answer(schema) for name, schema in properties.items()})

    async def sample(self, _context, params):
        self.asked.append(params)
        said = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=said, model="a-model", stopReason="endTurn")


def answer(schema):
    """A value of the type that the schema requires."""
    return {"boolean": True, "integer": 42, "number": 4.2}.get(schema["type"], "Ada")


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


async def refused(request):
    """The error response to a request."""
    try:
        answered = await request
    except McpError as error:
        return error.error
    raise AssertionError(f"answered with {answered}")


async def status_becomes(tasks, task_id, wanted):
    async for task in tasks.poll_task(task_id):
        if task.status == wanted:
            return task
    raise AssertionError(f"ended as {task.status}, not {wanted}")


async def initialize(session):
    server = await session.initialize()
    assert server.protocolVersion == "2025-11-25", server.protocolVersion
    offered = server.capabilities.tasks
    assert offered.list is not None and offered.cancel is not None, offered
    assert offered.requests.tools.call is not None, offered


async def list_tools(session):
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    support = {name: tool.execution and tool.execution.taskSupport for name, tool in tools.items()}
    assert support["greet"] in (None, "forbidden"), support
    assert support["slow_compute"] == "optional", support
    assert support["failing_job"] == "required", support


async def call_without_a_task(session):
    result = await session.call_tool("greet", {"name": "Ada"})
    assert text(result) == "Hello, Ada!", result


async def a_tool_that_is_always_a_task_refuses_a_plain_call(session):
    error = await refused(session.call_tool("failing_job", {}))
    assert error.code == types.METHOD_NOT_FOUND, error


async def poll_to_the_result(session):
    tasks = session.experimental
    created = (await tasks.call_tool_as_task("slow_compute", {"seconds": 1, "label": "poll"})).task
    assert created.status == "working", created
    await status_becomes(tasks, created.taskId, "completed")
    for _ in range(2):  # a result can be read again
        result = await tasks.get_task_result(created.taskId, types.CallToolResult)
        assert not result.isError and text(result), result
        assert result.meta[RELATED_TASK] == {"taskId": created.taskId}, result.meta


async def wait_for_the_result(session):
    tasks = session.experimental
    created = (await tasks.call_tool_as_task("slow_compute", {"seconds": 1, "label": "wait"})).task
    result = await tasks.get_task_result(created.taskId, types.CallToolResult)
    assert not result.isError and text(result), result
    assert (await tasks.get_task(created.taskId)).status == "completed"


async def a_tool_that_says_no_fails_the_task(session):
    tasks = session.experimental
    created = (await tasks.call_tool_as_task("failing_job", {})).task
    await status_becomes(tasks, created.taskId, "failed")
    result = await tasks.get_task_result(created.taskId, types.CallToolResult)
    assert result.isError and text(result), result


async def an_error_of_the_call_is_the_result(session):
    tasks = session.experimental
    created = (await tasks.call_tool_as_task("protocol_error_job", {})).task
    await status_becomes(tasks, created.taskId, "failed")
    error = await refused(tasks.get_task_result(created.taskId, types.CallToolResult))
    assert error.code and error.message, error


async def answer_while_polling(session, user):
    """The server request arrives on the general stream of the client, or on standard output."""
    tasks, before = session.experimental, len(user.asked)
    created = (await tasks.call_tool_as_task("confirm_delete", {"filename": "poll.txt"})).task
    await status_becomes(tasks, created.taskId, "completed")
    result = await tasks.get_task_result(created.taskId, types.CallToolResult)
    assert text(result) == "Deleted poll.txt.", result
    assert_asked_for(created.taskId, user.asked[before:])


async def answer_on_the_stream_of_the_result(session, user):
    """As the specification requires, the client calls `tasks/result` early; the server request arrives on that stream."""
    tasks, before = session.experimental, len(user.asked)
    created = (await tasks.call_tool_as_task("confirm_delete", {"filename": "result.txt"})).task
    result = await tasks.get_task_result(created.taskId, types.CallToolResult)
    assert text(result) == "Deleted result.txt.", result
    assert_asked_for(created.taskId, user.asked[before:])


async def answer_two_questions(session, user):
    tasks, before = session.experimental, len(user.asked)
    created = (await tasks.call_tool_as_task("multi_input", {})).task
    result = await tasks.get_task_result(created.taskId, types.CallToolResult)
    assert text(result) == "File: true, backup: true.", result
    messages = {params.message for params in user.asked[before:]}
    assert len(messages) == 2, messages


def assert_asked_for(task_id, asked):
    assert asked, "nothing was asked"
    for params in asked:
        assert params.meta.model_dump()[RELATED_TASK] == {"taskId": task_id}, params.meta


async def answer_within_a_plain_call(session, user):
    before = len(user.asked)
    result = await session.call_tool("test_elicitation", {"message": "Who is there?"})
    assert not result.isError and "accept" in text(result), result
    assert [params.message for params in user.asked[before:]] == ["Who is there?"], user.asked[before:]


async def sample_within_a_plain_call(session, _user):
    result = await session.call_tool("test_sampling", {"prompt": "What is the capital of France?"})
    assert "Paris" in text(result), result


async def progress_of_a_plain_call(session):
    seen = []

    async def note(progress, total, _message):
        seen.append((progress, total))

    await session.call_tool("test_tool_with_progress", {}, progress_callback=note)
    assert seen == [(0, 100), (50, 100), (100, 100)], seen


async def cancel(session):
    tasks = session.experimental
    created = (await tasks.call_tool_as_task("slow_compute", {"seconds": 60, "label": "cancel"})).task
    assert (await tasks.cancel_task(created.taskId)).status == "cancelled"
    assert (await tasks.get_task(created.taskId)).status == "cancelled"
    again = await refused(tasks.cancel_task(created.taskId))
    assert again.code == types.INVALID_PARAMS, again


async def list_what_this_session_created(session):
    tasks = session.experimental
    created = {(await tasks.call_tool_as_task("protocol_error_job", {})).task.taskId for _ in range(3)}
    listed, cursor = set(), None
    while True:
        page = await tasks.list_tasks(cursor)
        listed |= {task.taskId for task in page.tasks}
        cursor = page.nextCursor
        if cursor is None:
            break
    assert created <= listed, created - listed


async def an_unknown_task_is_an_error(session):
    tasks = session.experimental
    for request in (tasks.get_task("nothing"), tasks.get_task_result("nothing", types.CallToolResult), tasks.cancel_task("nothing")):
        error = await refused(request)
        assert error.code == types.INVALID_PARAMS, error


async def resources_and_prompts(session):
    read = await session.read_resource("test://static-text")
    assert read.contents[0].text == "This is the content of the static text resource.", read
    got = await session.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
    assert "arg1='one'" in got.messages[0].content.text, got


async def a_task_outlives_its_session(server):
    async with connect(server) as session:
        await session.initialize()
        created = (await session.experimental.call_tool_as_task("slow_compute", {"seconds": 1, "label": "outlive"})).task
    async with connect(server) as session:
        await session.initialize()
        await status_becomes(session.experimental, created.taskId, "completed")


async def script(server, steps):
    user = User()
    async with connect(server, elicitation_callback=user.elicit, sampling_callback=user.sample) as session:
        for step in (
            initialize,
            list_tools,
            call_without_a_task,
            a_tool_that_is_always_a_task_refuses_a_plain_call,
            poll_to_the_result,
            wait_for_the_result,
            a_tool_that_says_no_fails_the_task,
            an_error_of_the_call_is_the_result,
            progress_of_a_plain_call,
            cancel,
            list_what_this_session_created,
            an_unknown_task_is_an_error,
            resources_and_prompts,
        ):
            await steps.run(step, session)
        for step in (
            answer_while_polling,
            answer_on_the_stream_of_the_result,
            answer_two_questions,
            answer_within_a_plain_call,
            sample_within_a_plain_call,
        ):
            await steps.run(step, session, user)
    # On standard input and output the server is a process of the session, and this one has a data directory of its own.
    if server.url:
        await steps.run(a_task_outlives_its_session, server)


if __name__ == "__main__":
    main(script)
