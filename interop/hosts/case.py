"""Runs one case with one host, and prints one line of JSON: a word for what came of it, and what is wrong with that.

It must be alone in a network (`lo` is brought up here) and among processes, as `cargo xtask hosts` starts it: see `interop/README.md`.

usage: python3 case.py --host HOST --case CASE --way stdio|http|wrap --program LONGHAUL --packages FOLDER --node NODE --folder FOLDER
       python3 case.py --list
"""

import argparse
import json
import signal
import subprocess
import sys
import time

from cases import CASES
from hosts import HOSTS
from script import Script
from stage import Stage, wait

# How long work may run on when nobody waits for it any more, in seconds.
SETTLES = 75


def run(asked):
    case = CASES[asked.case]
    script = Script(case.calls, case.cancels)
    stage = Stage(asked, script)
    since = time.time()
    word = problem = None
    try:
        stage.start_host("LONGHAUL-1: do the work.")
        if case.act:
            case.act(stage)
        limit = case.limits.get(asked.host, case.limit)
        if not wait(lambda: script.is_done and stage.host.on_terminal or stage.has_ended(), limit):
            word, problem = "hung", f"the host did not end within {limit} s; its model was sent last: {stage.model.last_words()}"
    except AssertionError as error:
        word, problem = "failed", str(error)
    took = time.time() - since
    stage.kill_host()
    is_settled = wait(lambda: not stage.running(), SETTLES)
    if not problem:
        word, problem = case.verdict(stage)
    if not is_settled:
        word, problem = "left running", "; ".join(filter(None, [problem, f"{word}, but its work runs on"]))
    return {"word": word, "problem": problem, "seconds": round(took, 1), "turns": len(stage.model.turns())}


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        cases = [{"name": name, "ways": case.ways} for name, case in CASES.items()]
        print(json.dumps({"date": time.strftime("%Y-%m-%d"), "hosts": list(HOSTS), "cases": cases}))
        sys.exit()
    parser = argparse.ArgumentParser()
    for option in ("host", "case", "way", "program", "packages", "node", "folder"):
        parser.add_argument(f"--{option}", required=True)
    # A shell without job control ignores it for what runs in the background, and a host inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(json.dumps(run(parser.parse_args())))
