"""What the model does: calls the tools of a case, follows what was handed off, and ends."""

import json
import re

from model import Call

# How the server says a task is followed.
FOLLOW = re.compile(r'task_wait with (\{.*?\})')
TASK = re.compile(r'"(?:task|task_id|taskId)\\?":\s*\\?"([\w.-]+)')
# Claude Code on a terminal follows tasks itself, and tells the model when they have ended.
BACKGROUND = re.compile(r"moved to the background as task (\w+)")
TOLD = "<task-notification>"
MOST_CALLS = 40
WAITS = "I wait."


class Script:
    def __init__(self, calls, cancels=False):
        self.calls, self.cancels = calls, cancels
        self.is_done, self.made = False, 0

    def __call__(self, talk):
        self.is_done = False
        action = self.next(talk)
        self.made += isinstance(action, Call)
        if self.made > MOST_CALLS:
            action = "It does not end."
        self.is_done = not isinstance(action, Call) and action != WAITS
        return action

    def next(self, talk):
        # Each call has one result. Searches for tools do not count.
        steps = [(call, result) for call, result in zip(talk.calls, talk.results) if call.tool != self.search(talk)]
        call, last = steps[-1] if steps else (None, "")
        is_resumed = talk.prompt > 1
        if is_resumed and not steps:
            return "Done." if "result-of-" in "".join(talk.said) else self.follow(talk, last)
        if call and call.tool == "TaskStop":
            return "Done."
        if TASK.search(last) or BACKGROUND.search(last) and TOLD not in "".join(talk.said[talk.said.index(last) :]):
            return self.follow(talk, last)
        made = [call for call, _ in steps if any(call.tool.endswith(tool) for tool, _ in self.calls)]
        if is_resumed or len(made) == len(self.calls):
            return "Done."
        return self.call(talk, *self.calls[len(made)]) or "There is no such tool."

    def follow(self, talk, last):
        """Waits for the work of the last result, or stops it."""
        if background := BACKGROUND.search(last):
            return (self.call(talk, "TaskStop", {"task_id": background[1]}) if self.cancels else None) or WAITS
        tool = "task_cancel" if self.cancels and not any(call.tool.endswith("task_cancel") for call in talk.calls) else "task_wait"
        said = "".join(talk.said).replace("\\", "")
        told, tasks = FOLLOW.findall(said), TASK.findall(said)
        # The model takes the words of the server, as far as there are any.
        arguments = json.loads(told[-1]) if told and tool == "task_wait" else {"task": tasks[-1]} if tasks else None
        return (self.call(talk, tool, arguments) if arguments else None) or WAITS

    @staticmethod
    def search(talk):
        return next((name for name in talk.tools if re.search("tool_?search", name, re.I)), None)

    def call(self, talk, tool, arguments):
        """Some hosts list the tools of servers only when they were searched."""
        if name := talk.find(tool):
            return Call(name, arguments)
        query = Call(self.search(talk), {"query": f"select:mcp__jobs__{tool}" if tool.islower() else f"select:{tool}"})
        return query if query.tool and query not in talk.calls else None
