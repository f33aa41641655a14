"""The cases: what the model calls, what happens meanwhile, and what a user relies on."""

from dataclasses import dataclass, field

from script import TOLD
from stage import wait

# The longest result that suits a model, in characters.
MOST_TEXT = 128 * 1024
# How long a model may be without an answer when a server or a host has died, in seconds.
FREED = 90
BEGINS = 90
ESCAPE = "\x1b"


@dataclass
class Case:
    # The tools that the model calls, one after the other.
    calls: list
    # Gives a word for the table, and what is wrong or None.
    verdict: object
    ways: tuple = ("stdio", "http")
    limit: float = FREED
    # Of hosts that need longer.
    limits: dict = field(default_factory=dict)
    # What is done while the host works.
    act: object = None
    # The model stops the work when it knows that it goes on.
    cancels: bool = False


def seconds(number):
    return {"seconds": number}


def lost(stage, what):
    return "lost", f"the model did not get {what}, but: {stage.model.last_words()}"


def result_of(kind):
    """The model gets the result: in the answer of the call, by `task_wait`, or from a host that follows tasks."""

    def verdict(stage):
        if not stage.model.saw(f"result-of-{kind}"):
            return lost(stage, "the result")
        calls = [turn["action"]["tool"] for turn in stage.model.turns() if isinstance(turn["action"], dict)]
        if stage.model.saw(TOLD):
            return "task", None
        return "hand-off" if any(call.endswith("task_wait") for call in calls) else "result", None

    return verdict


def quick(stage):
    word, problem = result_of("quick")(stage)
    return word, "a quick call took the model a second turn" if word == "task" else problem


def answered(stage):
    for word, answer in {"answered": "accept", "declined": "decline", "cancelled": "cancel", "not asked": "impossible"}.items():
        if stage.model.saw(f"answer-is-{answer}"):
            return word, "the user had said yes" if stage.host.on_terminal and word != "answered" else None
    return lost(stage, "an answer")


def failed(stage):
    return ("error", None) if stage.model.saw("boom: the disk") else lost(stage, "the reason")


def large(stage):
    longest = max((len(said) for turn in stage.model.turns() for said in turn["said"]), default=0)
    if longest > MOST_TEXT:
        return "too long", f"the model got {longest} characters"
    if stage.model.saw("result-of-large"):
        return "result", None
    # Claude Code and opencode keep what is long for them in a file, and say where.
    return ("file", None) if stage.model.saw("saved to") else lost(stage, "the end of the output")


def image(stage):
    if any(turn["has_image"] for turn in stage.model.turns()):
        return "image", None
    return ("text", None) if stage.model.saw("result-of-image") else lost(stage, "the result")


def stopped(kind):
    """What was called was stopped, perhaps before it had begun."""

    def verdict(stage):
        if not stage.calls("tools/call", kind):
            return lost(stage, "its tool")
        has_ended = any(note["event"] == "ended" and note["kind"] == kind for note in stage.notes())
        return ("not stopped", "the work ran to its end") if has_ended else ("stopped", None)

    return verdict


def interrupted(stage):
    """What a host has not cancelled runs to its end: over HTTP one that only closes its connection may come back, and a task goes on."""
    word, problem = stopped("slow")(stage)
    is_cancelled = stage.calls("notifications/cancelled") or stage.calls("tasks/cancel") or "DELETE /mcp" in stage.wire.read_text()
    may_go_on = stage.way == "http" or stage.calls("tasks/get")
    return ("ended", None) if problem and may_go_on and not is_cancelled else (word, problem)


def ended(stage):
    """Work of a host that is gone was stopped, or ran to its end; that nothing is left running is checked for all cases."""
    if not stage.began("slow"):
        return "not begun", "the work did not begin"
    return "ended" if any(note["event"] == "ended" for note in stage.notes()) else "stopped", None


def goes_on(stage):
    """The session has its tools again."""
    return ("goes on", None) if stage.model.saw("result-of-quick") else lost(stage, "a result of the next call")


def learns(stage):
    """The model learns that its server is gone; some hosts start it again."""
    if stage.model.saw("result-of-quick"):
        return "goes on", None
    return ("error", None) if len(stage.model.turns()) > 1 else lost(stage, "anything")


def when_begun(kind, act):
    def run(stage):
        assert wait(lambda: stage.began(kind), BEGINS), f"the work did not begin; the model was sent: {stage.model.last_words()}"
        act(stage)

    return run


def answer(stage):
    if stage.host.on_terminal:
        stage.accept()


def kill_server(stage):
    if stage.way == "stdio":
        stage.kill_longhaul("stdio")
        return
    # Once the answer has begun, as a stream, a host of 2025-11-25 or older resumes it.
    wait(lambda: "event-stream" in stage.wire.read_text().split("tools/call")[-1], 16)
    stage.restart_server()


def interrupt(stage):
    if stage.host.on_terminal:
        # There the host goes on, and with it what has become a task.
        stage.press(ESCAPE)
        wait(lambda: not stage.running(), FREED)
        stage.kill_host()
        return
    for _ in range(3):
        # As a user does who sees nothing happen.
        stage.interrupt()
        if wait(stage.has_ended, 5):
            return


def kill_while_it_waits(stage):
    """The host dies while its model waits for work that was handed off, and goes on with its session."""
    waits = lambda: stage.calls("tools/call", "task_wait") or stage.calls("tasks/get") or stage.has_ended()
    assert wait(waits, BEGINS), "the host does not wait"
    stage.kill_host()
    stage.start_host("LONGHAUL-2: what became of it?", resumed=True)


def silent(number):
    return Case([("slow", seconds(number))], result_of("slow"), limit=number + FREED)


AFTERWARDS = [("slow", seconds(20)), ("quick", {})]
CASES = {
    "quick": Case([("quick", {})], quick, ("stdio", "http", "wrap")),
    "hand-off": Case([("handed", seconds(8))], result_of("handed")),
    # As often as some hosts stop a model that repeats a call with the same arguments: from three to five times.
    "many-waits": Case([("handed", seconds(30))], result_of("handed")),
    "always": Case([("always", seconds(5))], result_of("always")),
    "question": Case([("ask", {})], answered, ("wrap",), act=answer),
    "failing": Case([("failing", {})], failed, ("stdio",)),
    "large": Case([("large", {})], large, ("stdio",)),
    "image": Case([("image", {})], image, ("wrap",)),
    "cancel": Case([("handed", seconds(600))], stopped("handed"), cancels=True),
    "interrupt": Case([("slow", seconds(60))], interrupted, act=when_begun("slow", interrupt)),
    # Claude Code with -p speaks 2026-07-28, which has no resumption, and gives the call up about 100 s after the connection.
    "kill-server": Case(AFTERWARDS, learns, limit=45, limits={"claude-print": 200}, act=when_begun("slow", kill_server)),
    "kill-owner": Case(AFTERWARDS, goes_on, ("stdio", "wrap"), act=when_begun("slow", lambda stage: stage.kill_longhaul("serve"))),
    "kill-host": Case([("slow", seconds(60))], ended, act=when_begun("slow", lambda stage: stage.kill_host())),
    "resume": Case([("handed", seconds(20))], result_of("handed"), act=kill_while_it_waits),
    "silent-70": silent(70),
    "silent-150": silent(150),
    "silent-330": silent(330),
}
