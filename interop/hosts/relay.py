"""Records what a host and a server say to each other, on stdio or over HTTP: a line of wire.log for each message.

As a program, before the command of a server: python3 relay.py LOG PROGRAM [ARG …]
"""

import itertools
import json
import socket
import subprocess
import sys
import threading
import time


class Wire:
    def __init__(self, log):
        self._file, self._lock = open(log, "a", encoding="utf-8"), threading.Lock()

    def record(self, sender, text, **more):
        text = text.decode("utf-8", "replace").rstrip("\r\n") if isinstance(text, bytes) else text
        with self._lock:
            self._file.write(json.dumps({"at": round(time.time(), 3), "from": sender, **more, "text": text[:4000]}) + "\n")
            self._file.flush()


def stdio(log, command):
    wire = Wire(log)
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wire.record("relay", f"started {child.pid}")

    def inwards():
        for line in sys.stdin.buffer:
            wire.record("host", line)
            try:
                child.stdin.write(line)
                child.stdin.flush()
            except BrokenPipeError:
                return
        child.stdin.close()

    threading.Thread(target=inwards, daemon=True).start()
    for line in child.stdout:
        wire.record("server", line)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    wire.record("relay", f"the server ended with {child.wait()}")


class HttpRelay:
    """Passes on bytes as they are, to a server that may be away for a time: how a connection breaks off is passed on, too.

    The server has the same port at another address of this machine, since it compares its port with that of the header `Host`.
    """

    def __init__(self, server, log):
        self._server, self._wire = server, Wire(log)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener):
        for number in itertools.count(1):
            host, _ = listener.accept()
            try:
                server = socket.create_connection((self._server, self.port))
            except OSError as error:
                self._wire.record("relay", str(error), connection=number)
                host.close()
                continue
            for sender, source, target in (("host", host, server), ("server", server, host)):
                threading.Thread(target=self._pass, args=(sender, source, target, number), daemon=True).start()

    def _pass(self, sender, source, target, number):
        try:
            while part := source.recv(1 << 16):
                self._wire.record(sender, part, connection=number)
                target.sendall(part)
            self._wire.record(sender, "", connection=number, closed=True)
        except OSError as error:
            self._wire.record(sender, str(error), connection=number, closed=True)
        # The other direction ends with this one: neither side leaves one half open.
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    stdio(sys.argv[1], sys.argv[2:])
