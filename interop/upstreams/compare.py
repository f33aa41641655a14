"""Compares servers with themselves behind the gateway: the tools that they list and the results of calls, byte for byte. Needs nothing but Python.

usage: python3 compare.py --program LONGHAUL --commands JSON --folder FOLDER [--wrap]

JSON is how each server is started, by its name: {"git": {"command": "python3", "args": […], "env": {…}}}. With several servers, all are behind one
`longhaul serve`; with `--wrap`, the one server is behind `longhaul wrap`. Writes one line of JSON for each step.
"""

import argparse
import functools
import http.server
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import threading
import urllib.request

# Longer than any step takes, in seconds.
STEP_TIMEOUT = 60
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
# Some servers list some tools only for clients with these. The gateway lists them for everybody.
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Refused(Exception):
    """An error response: its JSON."""


# ---- JSON, without changing it

def members(text):
    """The members of an object, each as it is written."""
    decoder = json.JSONDecoder()
    found, at = {}, skip(text, skip(text, 0) + 1)
    while text[at] != "}":
        if text[at] == ",":
            at = skip(text, at + 1)
        name, at = decoder.raw_decode(text, at)
        begin = skip(text, skip(text, at) + 1)
        _, at = decoder.raw_decode(text, begin)
        found[name] = text[begin:at]
        at = skip(text, at)
    return found


def elements(text):
    """The elements of an array, each as it is written."""
    decoder = json.JSONDecoder()
    found, at = [], skip(text, skip(text, 0) + 1)
    while text[at] != "]":
        if text[at] == ",":
            at = skip(text, at + 1)
        _, end = decoder.raw_decode(text, at)
        found.append(text[at:end])
        at = skip(text, end)
    return found


def skip(text, at):
    """Past white space."""
    while text[at] in " \t\r\n":
        at += 1
    return at


# ---- Clients

class Client:
    """A client of one revision. `exchange` sends a request, and returns the text of the response."""

    def __init__(self, revision, capabilities):
        self.revision, self.capabilities, self.last_id = revision, capabilities, 0

    def open(self):
        if self.revision == MODERN:
            return self.request("server/discover", {})
        client = {"name": "compare", "version": "1"}
        hello = {"protocolVersion": LEGACY, "capabilities": self.capabilities, "clientInfo": client}
        result = self.request("initialize", hello)
        self.notify("notifications/initialized")
        return result

    def request(self, method, params):
        """The members of the result."""
        self.last_id += 1
        if self.revision == MODERN:
            params["_meta"] = {
                f"{META}protocolVersion": MODERN,
                f"{META}clientInfo": {"name": "compare", "version": "1"},
                f"{META}clientCapabilities": self.capabilities,
            }
        response = members(self.exchange(self.last_id, {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}))
        if "error" in response:
            raise Refused(response["error"])
        return members(response["result"])

    def tools(self):
        """The members of each tool, by its name."""
        found, cursor = {}, {}
        while True:
            page = self.request("tools/list", dict(cursor))
            for tool in elements(page["tools"]):
                parts = members(tool)
                found[json.loads(parts["name"])] = parts
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": json.loads(page["nextCursor"])}


class Stdio(Client):
    """The server is a child."""

    def __init__(self, command, environment, folder, revision, capabilities, log):
        super().__init__(revision, capabilities)
        self.child = subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(line.decode())
        self.lines.put(None)

    def send(self, message):
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def notify(self, method):
        self.send({"jsonrpc": "2.0", "method": method})

    def exchange(self, id, request):
        self.send(request)
        while True:
            line = self.lines.get(timeout=STEP_TIMEOUT)
            assert line is not None, "the server has ended"
            if not line.strip():
                continue
            message = json.loads(line)
            if "method" in message and "id" in message:
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "not here"}})
            elif message.get("id") == id:
                return line

    def close(self):
        self.child.stdin.close()
        # Some do not end by themselves.
        self.child.terminate()
        self.child.wait()


class Http(Client):
    """The server is at a URL."""

    def __init__(self, url, revision, capabilities):
        super().__init__(revision, capabilities)
        self.url, self.session = url, None

    def post(self, message):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": self.revision}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.revision == MODERN:
            headers["Mcp-Method"] = message["method"]
            if name := message.get("params", {}).get("name"):
                headers["Mcp-Name"] = name
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        try:
            response = urllib.request.urlopen(request, timeout=STEP_TIMEOUT)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            self.session = response.headers.get("Mcp-Session-Id", self.session)
            body = response.read().decode()
            if "text/event-stream" in response.headers.get("Content-Type", ""):
                events = [line[len("data:"):].strip() for line in body.splitlines() if line.startswith("data:")]
                return next((event for event in reversed(events) if event), "")
            return body

    def notify(self, method):
        self.post({"jsonrpc": "2.0", "method": method})

    def exchange(self, id, request):
        body = self.post(request)
        assert body.strip().startswith("{"), f"no response: {body!r}"
        return body

    def close(self):
        pass


# ---- The servers: what they need, and what is called. Each begins in a folder of its own, which is the same for the direct calls and for those through the
# gateway. `mask` hides what differs from one call to the next. `modern` servers speak 2026-07-28, too.

def seed_git(folder):
    environment = os.environ | {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in {
        "NAME": "Ada", "EMAIL": "ada@example.org", "DATE": "2026-01-02T03:04:05Z"}.items()}
    git = functools.partial(subprocess.run, cwd=folder, env=environment, check=True, capture_output=True)
    git(["git", "init", "--quiet", "--initial-branch=main"])
    (folder / "a.txt").write_text("one\ntwo\n")
    git(["git", "add", "a.txt"])
    git(["git", "commit", "--quiet", "--message", "First: ü"])
    (folder / "a.txt").write_text("one\n2\n")
    (folder / "new.txt").write_text("new\n")


def seed_files(folder):
    (folder / "a.txt").write_text("Grüße\n" * 20)
    (folder / "large.txt").write_text("".join(f"line {n}\n" for n in range(20_000)))
    (folder / "below").mkdir()
    (folder / "below" / "b.json").write_text('{"a": 1}')


class Server:
    def __init__(self, calls, arguments=(), seed=None, env=None, mask=None, modern=False):
        self.calls, self.arguments, self.seed, self.env, self.mask, self.modern = calls, list(arguments), seed, env or {}, mask, modern


FOLDER, PAGE = "{folder}", "{page}"
ENTITIES = {"entities": [{"name": "Ada", "entityType": "person", "observations": ["writes", "counts \u00e4\u2028"]}]}
SERVERS = {
    "filesystem": Server([
        ("list_directory", {"path": FOLDER}),
        ("read_text_file", {"path": f"{FOLDER}/a.txt", "head": 2}),
        ("read_text_file", {"path": f"{FOLDER}/large.txt"}),
        ("read_multiple_files", {"paths": [f"{FOLDER}/a.txt", f"{FOLDER}/none"]}),
        ("write_file", {"path": f"{FOLDER}/c.txt", "content": "written"}),
        ("edit_file", {"path": f"{FOLDER}/c.txt", "edits": [{"oldText": "written", "newText": "edited"}]}),
        ("directory_tree", {"path": FOLDER}),
        ("search_files", {"path": FOLDER, "pattern": "**/*.json"}),
        ("read_text_file", {"path": "/etc/passwd"}),
        ("read_text_file", {"wrong": True}),
    ], [FOLDER], seed_files),
    "memory": Server([
        ("create_entities", ENTITIES),
        ("add_observations", {"observations": [{"entityName": "Ada", "contents": ["plays"]}]}),
        ("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["?"]}]}),
        ("search_nodes", {"query": "counts"}),
        ("open_nodes", {"names": ["Ada"]}),
        ("read_graph", {}),
        ("delete_entities", {"entityNames": ["Ada"]}),
        ("read_graph", {}),
    ], env={"MEMORY_FILE_PATH": f"{FOLDER}/memory.jsonl"}),
    "sequential-thinking": Server([
        ("sequentialthinking", {"thought": "first", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}),
        ("sequentialthinking", {"thought": "second", "nextThoughtNeeded": False, "thoughtNumber": 2, "totalThoughts": 2}),
        ("sequentialthinking", {"thought": 3}),
    ]),
    "everything": Server([
        ("echo", {"message": "Hello \u00fc \U0001f600"}),
        ("get-sum", {"a": 1.5, "b": 2}),
        ("get-sum", {"a": "x"}),
        ("get-tiny-image", {}),
        ("get-structured-content", {"location": "Chicago"}),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("get-resource-links", {"count": 3}),
        ("trigger-long-running-operation", {"duration": 1, "steps": 2}),
    ], ["stdio"], mask=r"\d+:\d\d:\d\d( [AP]M)?"),
    "commands": Server([
        ("run_command", {"command": "printf 'one\\ntwo'"}),
        ("run_command", {"command": "echo wrong >&2; exit 3"}),
    ]),
    "git": Server([
        ("git_status", {"repo_path": FOLDER}),
        ("git_diff_unstaged", {"repo_path": FOLDER}),
        ("git_log", {"repo_path": FOLDER, "max_count": 5}),
        ("git_show", {"repo_path": FOLDER, "revision": "HEAD"}),
        ("git_add", {"repo_path": FOLDER, "files": ["new.txt"]}),
        ("git_diff_staged", {"repo_path": FOLDER}),
        ("git_create_branch", {"repo_path": FOLDER, "branch_name": "other"}),
        ("git_branch", {"repo_path": FOLDER, "branch_type": "local"}),
        ("git_show", {"repo_path": FOLDER, "revision": "no-such-revision"}),
        ("git_status", {"repo_path": "/nowhere"}),
    ], seed=seed_git, modern=True),
    "time": Server([
        ("get_current_time", {"timezone": "Europe/Berlin"}),
        ("convert_time", {"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "UTC"}),
        ("convert_time", {"source_timezone": "Nowhere", "time": "16:30", "target_timezone": "UTC"}),
    ], mask=r"\d{4}-\d\d-\d\dT[\d:]+|(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day", modern=True),
    "fetch": Server([
        ("fetch", {"url": PAGE}),
        ("fetch", {"url": PAGE, "raw": True, "max_length": 40, "start_index": 5}),
        ("fetch", {"url": f"{PAGE}/none"}),
        ("fetch", {"url": "no url"}),
    ], ["--allow-private-ips"], modern=True),
    "sqlite": Server([
        ("create_table", {"query": "CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT)"}),
        ("write_query", {"query": "INSERT INTO words (word) VALUES ('\u00fc'), ('two')"}),
        ("read_query", {"query": "SELECT * FROM words"}),
        ("list_tables", {}),
        ("describe_table", {"table_name": "words"}),
        ("read_query", {"query": "SELECT * FROM none"}),
        ("read_query", {}),
    ], ["--db-path", f"{FOLDER}/words.db"]),
    "calculator": Server([("calculate", {"expression": "2 * (3 + 4) ** 2"}), ("calculate", {"expression": "1 / 0"})]),
    "fastmcp-3": Server([
        ("greet", {"name": "Ada"}),
        ("greet", {}),
        ("test_tool_with_progress", {}),
    ], ["--stdio"]),
    "fastmcp-4": Server([("greet", {"name": "Ada"}), ("greet", {"name": 5})], ["--stdio"], modern=True),
    "mcp-1": Server([("greet", {"name": "Ada"}), ("greet", {})], ["--stdio"]),
}


class Page(http.server.BaseHTTPRequestHandler):
    """What is fetched."""

    def do_GET(self):
        found = not self.path.endswith("/none")
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write("<html><head><title>A page</title></head><body><h1>Hello</h1><p>This is a paragraph, gr\u00fc\u00dfe.</p></body></html>".encode())

    def log_message(self, *_):
        pass


# ---- Comparing

asked = argparse.ArgumentParser()
for option in ("program", "commands", "folder"):
    asked.add_argument(f"--{option}", required=True)
asked.add_argument("--wrap", action="store_true")
asked = asked.parse_args()
commands = json.loads(asked.commands)
folder = pathlib.Path(asked.folder).absolute()
page_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=page_server.serve_forever, daemon=True).start()
page = f"http://127.0.0.1:{page_server.server_port}/page"
log = open(folder / "servers.log", "ab")


def home(name):
    return folder / "work" / name


def filled(value, name):
    """`value` with the server's folder and the page in it."""
    return json.loads(json.dumps(value).replace(FOLDER, str(home(name))).replace(PAGE, page))


def seed_all():
    shutil.rmtree(folder / "work", ignore_errors=True)
    for name in commands:
        home(name).mkdir(parents=True)
        if SERVERS[name].seed:
            SERVERS[name].seed(home(name))


def entry(name):
    """How the server is started, as in an `mcpServers` file."""
    command, server = commands[name], SERVERS[name]
    environment = command["env"] | filled(server.env, name)
    arguments = command["args"] + filled(server.arguments, name)
    return {"command": command["command"], "args": arguments, "env": environment, "cwd": str(home(name))}


def section(name):
    """The same in a configuration. Strings of JSON are strings of TOML."""
    how = entry(name)
    env = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in how["env"].items())
    command = json.dumps([how["command"], *how["args"]])
    return f'[upstream.{name}]\ncommand = {command}\ncwd = {json.dumps(how["cwd"])}\nenv = {{ {env} }}\nhandoff = "0s"\n\n'


def direct(name, revision, capabilities):
    how = entry(name)
    environment = os.environ | how["env"]
    return Stdio([how["command"], *how["args"]], environment, home(name), revision, capabilities, log)


def answers(client, name, prefix=""):
    """What each call of the server has as its result, or its error."""
    found = []
    for tool, arguments in SERVERS[name].calls:
        try:
            found.append(client.request("tools/call", {"name": prefix + tool, "arguments": filled(arguments, name)}))
        except Refused as error:
            found.append({"error": str(error)})
    return found


def comparable(result, mask):
    """What must be equal: all members as they are written, less those of the protocol."""
    result = {member: text for member, text in result.items() if member not in ("resultType", "_meta")}
    meta = {name: value for name, value in json.loads(result.pop("_meta", "{}")).items() if not name.startswith(META)}
    if "error" in result:
        # The gateway names the upstream's error with its own envelope: code, message and data are the same.
        result = {"error": json.dumps(json.loads(result["error"]), sort_keys=True)}
    if mask:
        result = {member: re.sub(mask, "*", text) for member, text in result.items()}
    return result | {"_meta": meta}


def equal(what, through, expected):
    if through != expected:
        raise AssertionError(f"{what}: {through!r:.1500} through the gateway, {expected!r:.1500} direct")


done = 0


def step(server, name, run):
    global done
    done += 1
    try:
        run()
        line = {"server": server, "step": name, "ok": True}
    except Exception as error:  # Whatever it is, the other steps are done.
        line = {"server": server, "step": name, "ok": False, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(line), flush=True)


def listing(client, name, prefix=""):
    tools = client.tools()
    own = {tool.removeprefix(prefix): parts for tool, parts in tools.items() if tool.startswith(prefix)}
    return {tool: {member: text for member, text in parts.items() if member not in ("name", "execution")} for tool, parts in own.items()}


def read(parts):
    return {member: json.loads(text) for member, text in parts.items()}


def compare(gateway):
    """`gateway` gives a client of the gateway, for a revision."""
    modern = [name for name in commands if SERVERS[name].modern]
    for revision, names in ((LEGACY, list(commands)), (MODERN, modern)):
        seed_all()
        listed, results = {}, {}
        for name in names:
            client = direct(name, revision, CAPABILITIES)
            client.open()
            listed[name] = listing(client, name)
            client.close()
            client = direct(name, revision, {})
            client.open()
            results[name] = answers(client, name)
            client.close()
        seed_all()
        through = gateway(revision)
        through.open()
        for name in names:
            prefix = f"{name}_" if len(commands) > 1 else ""
            server = f"{name} {revision}"

            def lists():
                assert listed[name], "it lists no tool"
                shown = listing(through, name, prefix)
                equal("the names", list(shown), list(listed[name]))
                # A server of both revisions may write its tools otherwise in each. The gateway lists what a connection for such a client offers, and has connections in
                # both revisions once clients of both have come; a gateway of one server is started anew for each revision.
                is_listed_so = name not in modern or (revision == MODERN and len(commands) == 1)
                for tool, parts in listed[name].items():
                    equal(tool, *((shown[tool], parts) if is_listed_so else (read(shown[tool]), read(parts))))

            def calls():
                mask = SERVERS[name].mask
                answered = answers(through, name, prefix)
                for (tool, _), shown, expected in zip(SERVERS[name].calls, answered, results[name], strict=True):
                    equal(tool, comparable(shown, mask), comparable(expected, mask))
                assert any("error" not in result and result.get("isError") != "true" for result in results[name]), "no call has worked"

            step(server, "list-tools", lists)
            step(server, f"{len(results[name])} calls", calls)
        through.close()


def wrapped(revision):
    (name,) = commands
    how = entry(name)
    state = folder / f"data-{revision}"
    command = [asked.program, "wrap", "--handoff", "0s", "--data-dir", str(state), "--", how["command"], *how["args"]]
    return Stdio(command, os.environ | how["env"], home(name), revision, {}, log)


if asked.wrap:
    compare(wrapped)
else:
    config = folder / "longhaul.toml"
    config.write_text('[server]\nname = "all"\n\n' + "".join(section(name) for name in commands))
    seed_all()
    serve = [asked.program, "serve", str(config), "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data"), "--json"]
    gateway = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log)
    try:
        url = json.loads(gateway.stdout.readline())["url"]
        compare(functools.partial(Http, url, capabilities={}))
    finally:
        gateway.terminate()
        gateway.wait()
print(json.dumps({"done": done}))
