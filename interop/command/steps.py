"""Uses a server through the `longhaul` command: each step is a command of its own, and some are killed. Needs nothing but Python.

usage: python3 steps.py --program LONGHAUL --home FOLDER --server NAME --tools fixture|reference --url URL
"""

import argparse
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

# Longer than any step takes, in seconds.
STEP_TIMEOUT = 60

parser = argparse.ArgumentParser()
for option in ("program", "home", "server", "tools", "url"):
    parser.add_argument(f"--{option}", required=True)
asked = parser.parse_args()

# Tool, arguments, and a part of the result.
TOOLS = {
    "fixture": {
        "plain": ("greet", ["name=Ada"], "Hello, Ada!"),
        "task": ("slow_compute", ["seconds=1", "label=soon"], "soon"),
        "long": ("slow_compute", ["seconds=4", "label=later"], "later"),
        "endless": ("slow_compute", ["seconds=600", "label=never"], ""),
        "asks": ("confirm_delete", ["filename=a.txt"], "Deleted a.txt."),
        "asks_twice": ("confirm_twice", ["filename=a.txt", "pause=0"], "Deleted a.txt."),
        "asks_later": ("confirm_twice", ["filename=a.txt", "pause=3"], "Deleted a.txt."),
    },
    "reference": {
        "plain": ("echo", ["message=Hello"], "Echo: Hello"),
        "task": ("simulate-research-query", ["topic=tides"], "Research Report: tides"),
        "long": ("simulate-research-query", ["topic=tides"], "Research Report: tides"),
        "endless": ("simulate-research-query", ["topic=tides"], ""),
        "asks": ("simulate-research-query", ["topic=python", "ambiguous=true"], "Research Report: python (programming)"),
    },
}[asked.tools]


def environment():
    home = os.path.abspath(asked.home)
    kept = {name: value for name, value in os.environ.items() if name != "LONGHAUL_SERVER"}
    return kept | {"HOME": home, "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config", "TERM": "xterm"}


def longhaul(*words, status=0):
    """Runs a command to its end, and returns its standard output."""
    command = [asked.program, *words]
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=STEP_TIMEOUT)
    assert done.returncode == status, f"{words}: status {done.returncode}: {done.stdout} {done.stderr}"
    return done.stdout.strip()


def of(task):
    """The task as a word of a command: an id of another server may begin with a dash."""
    return f"--id={task}"


def until(look):
    """What `look` returns, once that is something."""
    end = time.monotonic() + STEP_TIMEOUT
    while time.monotonic() < end:
        if found := look():
            return found
    raise AssertionError(f"not within {STEP_TIMEOUT} s")


def detach(kind):
    tool, arguments, expected = TOOLS[kind]
    return longhaul("call", asked.url, tool, *arguments, "--detach"), expected


def recorded():
    """The ids of the recorded tasks."""
    calls = json.loads(longhaul("tasks", "--json", "--offline"))["calls"]
    return {call["taskId"] for call in calls if call["taskId"]}


def questions(task):
    return json.loads(longhaul("task", of(task), "--json")).get("inputRequests")


def values(question):
    """An answer that fits the form."""
    schema = question["params"]["requestedSchema"]
    for name in schema.get("required", []):
        field = schema["properties"][name]
        choices = field.get("enum") or [choice["const"] for choice in field.get("oneOf", [])]
        yield f"{name}={choices[0] if choices else 'true'}"


def tools():
    listed = longhaul("tools", asked.url)
    assert TOOLS["asks"][0] in listed, listed


def call():
    tool, arguments, expected = TOOLS["plain"]
    result = longhaul("call", asked.url, tool, *arguments)
    assert expected in result, result


def detach_and_fetch():
    task, expected = detach("task")
    assert task in recorded()
    result = longhaul("task", of(task), "--wait")
    assert expected in result, result


def cancel():
    task, _ = detach("endless")
    longhaul("cancel", of(task))
    longhaul("task", of(task), "--wait", status=4)


def killed_caller():
    tool, arguments, expected = TOOLS["long"]
    before = recorded()
    caller = subprocess.Popen([asked.program, "call", asked.url, tool, *arguments], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    task = until(lambda: recorded() - before).pop()
    caller.kill()
    caller.communicate()
    result = longhaul("task", of(task), "--wait")
    assert expected in result, result


def answer(said):
    """Answers the question that a command ended with. Returns its text."""
    said = json.loads(said)
    [(key, question)] = said["inputRequests"].items()
    longhaul("answer", of(said["taskId"]), f"--question={key}", "--accept", *values(question))
    return question["params"]["message"]


def answer_later():
    """Without a terminal the call ends when it is asked."""
    tool, arguments, expected = TOOLS["asks"]
    said = longhaul("call", asked.url, tool, *arguments, "--json", status=7)
    answer(said)
    result = longhaul("task", of(json.loads(said)["taskId"]), "--wait")
    assert expected in result, result


def answer_twice(kind):
    tool, arguments, expected = TOOLS[kind]
    said = longhaul("call", asked.url, tool, *arguments, "--json", status=7)
    task = json.loads(said)["taskId"]
    first = answer(said)
    second = answer(longhaul("task", of(task), "--wait", "--json", status=7))
    assert first.startswith("Delete") and second.startswith("Really"), (first, second)
    result = longhaul("task", of(task), "--wait")
    assert expected in result, result


def second_question():
    """It comes at once behind the first answer."""
    answer_twice("asks_twice")


def later_question():
    """It comes while the task is waited for."""
    answer_twice("asks_later")


def killed_at_the_form():
    tool, arguments, expected = TOOLS["asks"]
    before = recorded()
    caller, terminal = pty.fork()
    if caller == 0:
        os.execve(asked.program, ["longhaul", "call", asked.url, tool, *arguments], environment())
    shown = ""

    def drain():
        nonlocal shown
        while select.select([terminal], [], [], 0)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
            # The form asks where the cursor is.
            if shown.endswith("\x1b[6n"):
                os.write(terminal, b"\x1b[1;1R")

    def is_asked():
        drain()
        new = recorded() - before
        found = new and questions(next(iter(new)))
        return found and (next(iter(new)), found)

    task, found = until(is_asked)
    [(key, question)] = found.items()
    first_word = re.split(r"\s", question["params"]["message"])[0]
    until(lambda: drain() or first_word in shown)
    os.kill(caller, signal.SIGKILL)
    os.waitpid(caller, 0)
    os.close(terminal)
    assert questions(task) == found
    longhaul("answer", of(task), f"--question={key}", "--accept", *values(question))
    result = longhaul("task", of(task), "--wait")
    assert expected in result, result


def raising_tool():
    """The task has failed, and the result that the SDK gives of it does not say so."""
    called = subprocess.run([asked.program, "call", asked.url, "raising_job"], env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=STEP_TIMEOUT)
    said = called.stdout + called.stderr
    assert called.returncode != 0 and "the disk is full" in said, f"status {called.returncode}: {said}"


steps = [tools, call, detach_and_fetch, cancel, killed_caller, answer_later, killed_at_the_form]
if "asks_twice" in TOOLS:
    steps += [second_question, later_question]
if "mcp_1" in asked.server:
    steps.append(raising_tool)
done = 0
for step in steps:
    line = {"server": asked.server, "step": step.__name__.replace("_", " "), "ok": True}
    try:
        step()
    except Exception as error:  # noqa: BLE001: every error is reported
        line |= {"ok": False, "error": f"{type(error).__name__} {error}".rstrip()}
    done += 1
    print(json.dumps(line), flush=True)
print(json.dumps({"server": asked.server, "done": done}))
