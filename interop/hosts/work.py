"""The work of the tools: writes down that it has begun and ended, so that what is left running is found.

usage: python3 work.py KIND [SECONDS]
"""

import json
import os
import sys
import time
from pathlib import Path

LOG = Path(__file__).with_name("work.log")


def note(event, kind, log=LOG):
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps({"at": time.time(), "event": event, "kind": kind, "pid": os.getpid()}) + "\n")


if __name__ == "__main__":
    kind, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0
    note("began", kind)
    time.sleep(seconds)
    note("ended", kind)
    if kind == "failing":
        sys.exit("boom: the disk of the robot is full")
    if kind == "large":
        for number in range(100_000):
            print(f"line {number} of a long report, which no model can read as a whole")
    print(f"result-of-{kind}")
