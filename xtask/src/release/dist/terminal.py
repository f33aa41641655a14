"""Runs a program in a terminal, presses Ctrl-C once it is ready, and then sends it SIGTERM. Prints what the terminal shows, and the exit code."""

import os
import pty
import signal
import sys

pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""


def until(word):
    global shown
    while word not in shown:
        shown += os.read(terminal, 1024)


until(b"ready")
os.write(terminal, b"\x03")
until(b"interrupted")
os.kill(pid, signal.SIGTERM)
until(b"interrupts: ")
until(b"\n")
_, status = os.waitpid(pid, 0)
sys.stdout.write(shown.decode())
print("exit code", os.waitstatus_to_exitcode(status))
