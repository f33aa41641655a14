"""A host with its home, its model and its server, alone in a network and among processes of its own."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

from hosts import HOSTS, environment
from model import Model
from relay import HttpRelay

HERE = Path(__file__).parent
SERVER_ADDRESS = "127.0.0.2"
SCREEN = struct.pack("HHHH", 50, 160, 0, 0)


def wait(condition, limit):
    """What the condition gives, or None after so many seconds."""
    end = time.time() + limit
    while not (found := condition()) and time.time() < end:
        time.sleep(0.1)
    return found or None


def processes():
    """The command lines of all processes that live, by their id."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found[int(entry.name)] = entry.joinpath("cmdline").read_text().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
    return found


class Stage:
    def __init__(self, asked, script):
        self.folder, self.packages, self.node, self.longhaul = Path(asked.folder), Path(asked.packages), asked.node, asked.program
        self.home, self.work, self.served = self.folder / "home", self.folder / "home/work", self.folder / "served"
        for folder in (self.work, self.served):
            folder.mkdir(parents=True)
        for file in ("jobs.toml", "work.py"):
            shutil.copy(HERE / file, self.served)
        self.wire = self.folder / "wire.log"
        self.model = Model(script, self.folder / "model.log")
        self.kind, self.way = asked.host, asked.way
        self._serve = self._host = None
        self._screen = b""
        self.host = HOSTS[self.kind](self, self.server())

    def server(self):
        """What the host is told of the server: each way has a recording relay between the two."""
        recorded = [sys.executable, "-B", str(HERE / "relay.py"), str(self.wire), self.longhaul]
        if self.way == "stdio":
            return {"command": [*recorded, "stdio", str(self.served / "jobs.toml")]}
        if self.way == "wrap":
            upstream = [sys.executable, "-B", str(HERE / "upstream.py"), str(self.served / "work.log")]
            return {"command": [*recorded, "wrap", "--handoff", "5s", "--", *upstream]}
        self.port = HttpRelay(SERVER_ADDRESS, self.wire).port
        self.start_server()
        return {"url": f"http://127.0.0.1:{self.port}/mcp"}

    def start_server(self):
        log = self.folder / "serve.log"
        line = [self.longhaul, "serve", str(self.served / "jobs.toml"), "--listen", f"{SERVER_ADDRESS}:{self.port}"]
        begin = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as file:
            environ = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
            self._serve = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environ)
        assert wait(lambda: b"http://" in log.read_bytes()[begin:], 30), f"longhaul serve does not start: {log.read_text()}"

    def restart_server(self):
        self._serve.kill()
        self._serve.wait()
        self.start_server()

    def start_host(self, prompt, resumed=False):
        line = [str(word) for word in (self.host.resumed if resumed else self.host.command)] + [prompt]
        environ = environment(self, self.host)
        if self.host.on_terminal:
            self._start_on_terminal(line, environ)
            return
        with open(self.folder / "host.log", "ab") as log:
            self._host = subprocess.Popen(line, cwd=self.work, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _start_on_terminal(self, line, environ):
        terminal, other = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, SCREEN)
        session = lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self._host = subprocess.Popen(line, cwd=self.work, env=environ, stdin=other, stdout=other, stderr=other, preexec_fn=session)
        os.close(other)
        self._terminal = terminal

        def read():
            with open(self.folder / "screen.log", "ab") as log:
                try:
                    while part := os.read(terminal, 65536):
                        self._screen += part
                        log.write(part)
                        log.flush()
                except OSError:
                    return

        threading.Thread(target=read, daemon=True).start()

    def shows(self, words):
        """Whether the terminal has shown some words: without the sequences that move the cursor between them."""
        plain = re.sub(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\s", b"", self._screen)
        return words.replace(" ", "").encode() in plain

    def press(self, keys):
        os.write(self._terminal, keys.encode())

    def accept(self):
        """Says yes to the question on the terminal: ticks the box, goes to the button, presses it."""
        assert wait(lambda: self.shows("Space to toggle"), 60), "the terminal does not show the question"
        answered = lambda: self.model.saw("answer-is-")
        for key, seen in ((" ", lambda: self.shows("☒")), ("\x1b[B", lambda: self.shows("❯ Accept")), ("\r", answered)):
            # A key may come before the form takes any.
            assert any(self.press(key) or wait(seen, 5) for _ in range(3)), f"the terminal does not take {key!r}"

    def has_ended(self):
        return self._host.poll() is not None

    def interrupt(self):
        self._host.send_signal(signal.SIGINT)

    def kill_host(self):
        if not self.has_ended():
            self._host.kill()
            self._host.wait()

    def kill_longhaul(self, command):
        """Kills the processes of one command of longhaul."""
        found = [pid for pid, line in processes().items() if line[0] == self.longhaul and line[1:2] == [command]]
        assert found, f"there is no longhaul {command}"
        for pid in found:
            os.kill(pid, signal.SIGKILL)

    def notes(self):
        """What the work of the tools has written down."""
        log = self.served / "work.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def began(self, kind):
        return any(note["event"] == "began" and note["kind"] == kind for note in self.notes())

    def running(self):
        """The work that is still there."""
        alive, ended = processes(), {(note["pid"], note["kind"]) for note in self.notes() if note["event"] == "ended"}
        return [note for note in self.notes() if note["pid"] in alive and (note["pid"], note["kind"]) not in ended]

    def calls(self, method, tool=""):
        """How often the host has sent a method, of a tool."""
        if not self.wire.exists():
            return 0
        lines = [json.loads(line) for line in self.wire.read_text().splitlines()]
        sent = [line["text"] for line in lines if line["from"] == "host"]
        return sum(f'"{method}"' in text.replace('": "', '":"') and tool in text for text in sent)
