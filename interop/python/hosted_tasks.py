"""Client-hosted tasks with the Python client: it answers a server request with a task, which the server polls."""

import anyio
from mcp import types
from mcp.client.experimental.task_handlers import ExperimentalTaskHandlers
from mcp.shared.experimental.tasks.helpers import cancel_task
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore

from steps import connect, main
from tasks import status_becomes, text


PARIS = types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="Paris"), model="a-model")


class SlowUser:
    """Ends its task only after the server has polled it as working; or never."""

    def __init__(self, background, decides):
        self.background = background
        self.decides = decides
        self.seen_thinking = anyio.Event()
        self.store = InMemoryTaskStore()
        self.served = []

    def handlers(self):
        return ExperimentalTaskHandlers(
            get_task=self.get,
            get_task_result=self.result,
            list_tasks=self.list,
            cancel_task=self.cancel,
            augmented_elicitation=self.elicit,
            augmented_sampling=self.sample,
        )

    async def elicit(self, _context, params, metadata):
        self.served.append("elicitation/create")
        content = {name: True for name in params.requestedSchema["properties"]}
        return await self.think(types.ElicitResult(action="accept", content=content), metadata)

    async def sample(self, _context, _params, metadata):
        self.served.append("sampling/createMessage")
        return await self.think(PARIS, metadata)

    async def decline_at_once(self, _context, _params):
        self.served.append("elicitation/create without a task")
        return types.ElicitResult(action="decline")

    async def sample_at_once(self, _context, _params):
        return PARIS

    async def think(self, answer, metadata):
        task = await self.store.create_task(metadata)

        async def decide():
            await self.seen_thinking.wait()
            await self.store.store_result(task.taskId, answer)
            await self.store.update_task(task.taskId, status="completed")

        if self.decides:
            self.background.start_soon(decide)
        return types.CreateTaskResult(task=task)

    async def get(self, _context, params):
        self.served.append("tasks/get")
        task = await self.store.get_task(params.taskId)
        self.seen_thinking.set()
        return types.GetTaskResult(**task.model_dump())

    async def result(self, _context, params):
        self.served.append("tasks/result")
        self.seen_thinking.set()
        while (answer := await self.store.get_result(params.taskId)) is None:
            await self.store.wait_for_update(params.taskId)
        return types.GetTaskPayloadResult(**answer.model_dump(by_alias=True, exclude_none=True))

    async def list(self, _context, params):
        self.served.append("tasks/list")
        tasks, cursor = await self.store.list_tasks(params and params.cursor)
        return types.ListTasksResult(tasks=tasks, nextCursor=cursor)

    async def cancel(self, _context, params):
        self.served.append("tasks/cancel")
        return await cancel_task(self.store, params.taskId)


async def initialize(session, _user):
    await session.initialize()


async def the_answer_to_a_task_is_a_task(session, user):
    tasks = session.experimental
    created = (await tasks.call_tool_as_task("confirm_delete", {"filename": "hosted.txt"})).task
    await status_becomes(tasks, created.taskId, "completed")
    result = await tasks.get_task_result(created.taskId, types.CallToolResult)
    assert text(result) == "Deleted hosted.txt.", result
    assert {"elicitation/create", "tasks/get", "tasks/result"} <= set(user.served), user.served


async def within_a_plain_call_the_answer_is_waited_for(session, _user):
    result = await session.call_tool("test_sampling", {"prompt": "What is the capital of France?"})
    assert "Paris" in text(result), result


async def cancelling_the_task_cancels_the_answer(session, user):
    tasks = session.experimental
    created = (await tasks.call_tool_as_task("confirm_delete", {"filename": "cancelled.txt"})).task
    await status_becomes(tasks, created.taskId, "input_required")
    while "tasks/get" not in user.served:
        await anyio.sleep(0.05)
    await tasks.cancel_task(created.taskId)
    while "tasks/cancel" not in user.served:
        await anyio.sleep(0.05)


async def script(server, steps):
    for decides, questions in (
        (True, (the_answer_to_a_task_is_a_task, within_a_plain_call_the_answer_is_waited_for)),
        (False, (cancelling_the_task_cancels_the_answer,)),
    ):
        async with anyio.create_task_group() as background:
            user = SlowUser(background, decides)
            callbacks = {
                "elicitation_callback": user.decline_at_once,
                "sampling_callback": user.sample_at_once,
                "experimental_task_handlers": user.handlers(),
            }
            async with connect(server, **callbacks) as session:
                for step in (initialize, *questions):
                    await steps.run(step, session, user)
            background.cancel_scope.cancel()


if __name__ == "__main__":
    main(script)
