"""A model server that follows a script: the Anthropic Messages API, OpenAI Responses and Chat Completions, and Gemini generateContent.

The script is a function that gets a `Conversation` and returns a `Call` or a text. Each request is a line of the log.
"""

import http.server
import itertools
import json
import re
import threading
import time
from dataclasses import dataclass, field

# Hosts ask their models for titles, summaries and the like, too. What has none of these words is answered with "ok".
MARK = re.compile(r"LONGHAUL-(\d+)")
# How an image in PNG begins, in Base64.
IMAGE = b"iVBORw0KGgo"
_numbers = itertools.count(1)


@dataclass
class Call:
    tool: str
    arguments: dict


@dataclass
class Conversation:
    """What the model is sent: tools, and what was said since the last request of the user."""

    tools: dict = field(default_factory=dict)
    prompt: int = 0
    calls: list = field(default_factory=list)
    results: list = field(default_factory=list)
    text: str = ""
    # What the user or the host has said, and the results of tools, in order.
    said: list = field(default_factory=list)

    def user(self, text):
        found = MARK.search(text)
        if found and int(found[1]) > self.prompt:
            self.prompt, self.calls, self.results = int(found[1]), [], []
        self.said.append(text)

    def called(self, name, arguments):
        self.calls.append(Call(name, arguments if isinstance(arguments, dict) else json.loads(arguments or "{}")))

    def result(self, content):
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        # Qwen Code describes tools in the result of a search, and then takes calls of them without listing them.
        self.tools |= {name: {} for name in re.findall(r'\\"name\\?": ?\\?"(mcp__\w+)', text)}
        self.results.append(text)
        self.said.append(text)

    def find(self, tool):
        """The name under which the host lists a tool of the server, or one of its own."""
        return next((name for name in self.tools if name == tool or re.search(rf"jobs[._]+{tool}$", name)), None)


def texts(content):
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def read_anthropic(body):
    talk = Conversation({tool["name"]: tool for tool in body.get("tools", [])})
    for message in body["messages"]:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match part["type"]:
                case "tool_use":
                    talk.called(part["name"], part["input"])
                case "tool_result":
                    talk.result(part.get("content", ""))
                case "text" if message["role"] != "assistant":
                    talk.user(part["text"])
    return talk


def read_responses(body):
    talk = Conversation({})
    for tool in body.get("tools", []):
        # A namespace has the tools of one server.
        for each in tool.get("tools", [tool]):
            prefix = tool["name"] + "." if "tools" in tool else ""
            talk.tools[prefix + each.get("name", each.get("type", ""))] = each | {"namespace": prefix}
    for item in body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]:
        match item.get("type", "message"):
            case "function_call":
                talk.called(".".join(filter(None, [item.get("namespace"), item["name"]])), item["arguments"])
            case "custom_tool_call" | "tool_search_call":
                talk.called(item.get("name", item["type"]), {})
            case "function_call_output" | "custom_tool_call_output":
                talk.result(item["output"])
            case "tool_search_output":
                talk.result(item)
                for group in item.get("tools", []):
                    for each in group.get("tools", [group]):
                        prefix = group["name"] + "." if "tools" in group else ""
                        talk.tools[prefix + each["name"]] = each | {"namespace": prefix}
            case "message" if item.get("role") == "user":
                talk.user(texts(item["content"]))
    return talk


def read_chat(body):
    talk = Conversation({tool["function"]["name"]: tool["function"] for tool in body.get("tools", [])})
    for message in body["messages"]:
        match message["role"]:
            case "assistant":
                for call in message.get("tool_calls") or []:
                    talk.called(call["function"]["name"], call["function"]["arguments"])
            case "tool":
                talk.result(message["content"])
            case "user":
                talk.user(texts(message["content"]))
    return talk


def read_gemini(body):
    tools = [each for tool in body.get("tools", []) for each in tool.get("functionDeclarations", [])]
    talk = Conversation({tool["name"]: tool for tool in tools})
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if "functionCall" in part:
                talk.called(part["functionCall"]["name"], part["functionCall"].get("args", {}))
            elif "functionResponse" in part:
                talk.result(part["functionResponse"].get("response", {}))
            elif content.get("role") == "user" and "text" in part:
                talk.user(part["text"])
            elif content.get("role") == "user":
                talk.said.append(json.dumps(part))
    return talk


def write_anthropic(action, body):
    number = next(_numbers)
    block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": action}, "end_turn"
    if isinstance(action, Call):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": action.tool, "input": {}}
        delta, stop = {"type": "input_json_delta", "partial_json": json.dumps(action.arguments)}, "tool_use"
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "stop_reason": None, "stop_sequence": None}
    if not body.get("stream"):
        whole = block | ({"input": action.arguments} if isinstance(action, Call) else {"text": action})
        return [message | {"content": [whole], "stop_reason": stop, "usage": usage}]
    return [
        {"type": "message_start", "message": message | {"content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def write_responses(action, body):
    number = next(_numbers)
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
    item["content"] = [{"type": "output_text", "text": action, "annotations": []}]
    if isinstance(action, Call):
        tool = read_responses(body).tools.get(action.tool, {})
        prefix = tool.get("namespace", "")
        name = action.tool.removeprefix(prefix)
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name, "arguments": json.dumps(action.arguments)}
        if prefix:
            item["namespace"] = prefix.removesuffix(".")
        if tool.get("type") == "tool_search":
            item = {"type": "tool_search_call", "call_id": f"call_{number}", "execution": "client", "arguments": action.arguments, "status": "completed"}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    response = {"id": f"resp_{number}", "object": "response", "model": body["model"], "output": [item], "status": "completed", "usage": usage}
    if not body.get("stream"):
        return [response]
    return [
        {"type": "response.created", "response": response | {"output": [], "status": "in_progress", "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


def write_chat(action, body):
    number = next(_numbers)
    said, stop = {"role": "assistant", "content": action}, "stop"
    if isinstance(action, Call):
        function = {"name": action.tool, "arguments": json.dumps(action.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        said, stop = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    answer = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": body["model"]}
    if not body.get("stream"):
        return [answer | {"object": "chat.completion", "choices": [{"index": 0, "message": said, "finish_reason": stop}], "usage": usage}]
    chunk = answer | {"object": "chat.completion.chunk"}
    return [
        chunk | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage},
    ]


def write_gemini(action, _):
    part = {"functionCall": {"name": action.tool, "args": action.arguments}} if isinstance(action, Call) else {"text": action}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return [{"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}]


class Model:
    """A server on this machine with a script."""

    def __init__(self, script, log):
        self.script, self.requests = script, []
        self._log, self._lock = open(log, "w", encoding="utf-8"), threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer({"data": [], "models": []})

            do_HEAD = do_GET

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path = self.path.split("?")[0]
                try:
                    body = json.loads(raw)
                except ValueError:
                    body = {}
                if path.endswith("/messages"):
                    self.converse(raw, body, read_anthropic, write_anthropic, body.get("stream"), named=True)
                elif path.endswith("/responses"):
                    self.converse(raw, body, read_responses, write_responses, body.get("stream"), named=True)
                elif path.endswith("/chat/completions"):
                    self.converse(raw, body, read_chat, write_chat, body.get("stream"), end="data: [DONE]\n\n")
                elif path.endswith(":streamGenerateContent") or path.endswith(":generateContent"):
                    self.converse(raw, body, read_gemini, write_gemini, "stream" in path)
                else:
                    # Counting tokens, and telemetry that cannot be switched off.
                    self.answer({"input_tokens": 10, "totalTokens": 10})

            def converse(self, raw, body, read, write, streams, named=False, end=""):
                events = write(model.next(read(body), self.path, IMAGE in raw), body)
                if not streams:
                    return self.answer(events[0])
                name = (lambda event: f"event: {event['type']}\n") if named else (lambda event: "")
                text = "".join(f"{name(event)}data: {json.dumps(event)}\n\n" for event in events) + end
                self.answer(text.encode(), "text/event-stream")

            def answer(self, body, kind="application/json"):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next(self, talk, path, has_image):
        action = self.script(talk) if talk.prompt and talk.tools else "ok"
        entry = {"at": time.time(), "path": path, "prompt": talk.prompt if talk.tools else 0, "has_image": has_image, "tools": list(talk.tools)}
        entry |= {"said": talk.said, "action": getattr(action, "__dict__", action)}
        with self._lock:
            self.requests.append(entry)
            self._log.write(json.dumps(entry) + "\n")
            self._log.flush()
        return action

    def turns(self):
        """The requests of the prompt, without those for titles and the like."""
        with self._lock:
            return [entry for entry in self.requests if entry["prompt"]]

    def saw(self, text):
        """Whether the model was sent a text."""
        return any(text in said for entry in self.turns() for said in entry["said"])

    def last_words(self):
        """The end of what the model was sent last."""
        return self.turns()[-1]["said"][-1][-300:] if self.turns() else "nothing"
