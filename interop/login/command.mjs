// Logs in with the `longhaul` command on a machine without a browser, and runs tasks. One command is killed.
//
// usage: node command.mjs --program LONGHAUL --home FOLDER --url URL --browser URL

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const text = { type: "string" };
const { values: asked } = parseArgs({ options: { program: text, home: text, url: text, browser: text } });
const CLIENT = "longhaul";
/** Longer than a token lives. */
const TOKEN_LIFE_MS = 11_000;
/** Longer than any step takes. */
const STEP_TIMEOUT_MS = 30_000;

/** Starts a command as a user whose files are in `folder`. */
function start(folder, words, stdin = "ignore") {
  const env = { ...process.env, HOME: `${asked.home}/${folder}`, XDG_STATE_HOME: `${asked.home}/${folder}/state`, XDG_CONFIG_HOME: `${asked.home}/${folder}/config` };
  return spawn(asked.program, words, { env, stdio: [stdin, "pipe", "pipe"] });
}

/** What a command prints until it ends, and its status. */
async function end(child) {
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (part) => (said[name] += part));
  const [status] = await once(child, "close");
  return { status, ...said };
}

async function run(folder, words, status = 0) {
  const ended = await end(start(folder, words));
  assert.equal(ended.status, status, JSON.stringify(ended));
  return ended;
}

async function logIn(folder) {
  const login = start(folder, ["login", asked.url, "--no-browser", "--json"], "pipe");
  const lines = createInterface({ input: login.stderr });
  const [first] = await once(lines, "line");
  const address = first.match(/http\S+$/)[0];
  const page = await fetch(`${asked.browser}?url=${encodeURIComponent(address)}`);
  login.stdin.end(`${await page.text()}\n`);
  let printed = "";
  for await (const part of login.stdout.setEncoding("utf8")) printed += part;
  return JSON.parse(printed);
}

let taskId;

const steps = {
  async "a call is refused and says how to log in"() {
    const { stderr } = await run("first", ["call", asked.url, "build"], 5);
    assert.match(stderr, /longhaul login/);
  },

  async "log in without a browser and run a task"() {
    const loggedIn = await logIn("first");
    assert.equal(loggedIn.loggedIn, true, JSON.stringify(loggedIn));
    const { stdout } = await run("first", ["call", asked.url, "build"]);
    assert.match(stdout, /done/);
  },

  async "a killed call is waited for by another process"() {
    const call = start("first", ["call", asked.url, "build"]);
    const [line] = await once(createInterface({ input: call.stderr }), "line");
    taskId = line.match(/task (\S+)/)[1];
    call.kill("SIGKILL");
    await once(call, "close");
    const { stdout } = await run("first", ["task", taskId, "--wait"]);
    assert.match(stdout, /done/);
  },

  async "the token is refreshed"() {
    const until = async () => JSON.parse((await run("first", ["whoami", asked.url, "--json"])).stdout).expiresAt;
    const first = await until();
    await sleep(TOKEN_LIFE_MS);
    await run("first", ["tasks", asked.url]);
    assert.notEqual(await until(), first);
  },

  async "another login of the user finds the task"() {
    await logIn("second");
    // The older revision has a list.
    const { stdout } = await run("second", ["tasks", asked.url, "--era", "legacy", "--json"]);
    assert.ok(stdout.includes(taskId), stdout);
  },

  async "log out"() {
    await run("first", ["logout", asked.url]);
    await run("first", ["tools", asked.url], 5);
  },
};

let failed = 0;
for (const [step, act] of Object.entries(steps)) {
  const line = { client: CLIENT, step, ok: true };
  try {
    const late = sleep(STEP_TIMEOUT_MS, null, { ref: false }).then(() => assert.fail("not done in time"));
    await Promise.race([act(), late]);
  } catch (error) {
    failed += 1;
    Object.assign(line, { ok: false, error: String(error?.message ?? error).replace(/\s+/g, " ") });
  }
  console.log(JSON.stringify(line));
}
console.log(JSON.stringify({ client: CLIENT, done: Object.keys(steps).length }));
process.exit(failed ? 1 : 0);
