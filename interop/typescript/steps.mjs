// Runs the steps of a script and reports them: one line of JSON for each step, one at the end, and an exit status.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

// Longer than any step takes.
const STEP_TIMEOUT_MS = 30_000;

/** The server on the command line: `--url URL` or `--stdio PROGRAM [ARG …]`. */
export function server() {
  const [how, first, ...rest] = process.argv.slice(2);
  if (how === "--url" && first) return { url: new URL(first) };
  if (how === "--stdio" && first) return { command: first, args: rest };
  console.error("usage: node SCRIPT --url URL | --stdio PROGRAM [ARG …]");
  process.exit(2);
}

/** Runs steps, continues after a failed one, and exits with 0 only if all passed. */
export async function run(packageName, steps) {
  const client = `${packageName} ${version(packageName)}`;
  let failed = 0;
  for (const [step, act] of Object.entries(steps)) {
    try {
      await within(STEP_TIMEOUT_MS, act());
      tell({ client, step, ok: true });
    } catch (error) {
      failed += 1;
      tell({ client, step, ok: false, error: String(error?.message ?? error).replace(/\s+/g, " ") });
    }
  }
  tell({ client, done: Object.keys(steps).length });
  process.exit(failed ? 1 : 0);
}

/** The installed version of a package. */
function version(packageName) {
  const file = new URL(`node_modules/${packageName}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function within(milliseconds, promise) {
  const ended = new AbortController();
  const late = sleep(milliseconds, undefined, { signal: ended.signal }).then(() => {
    throw new Error(`not done within ${milliseconds / 1000} s`);
  });
  try {
    await Promise.race([promise, late]);
  } finally {
    ended.abort();
    late.catch(() => {});
  }
}

/** The error response to a request. */
export async function refused(request) {
  return request.then(
    (answered) => assert.fail(`answered with ${JSON.stringify(answered)}`),
    (error) => error,
  );
}

/** The text of a result. */
export function text(result) {
  return result.content.map((block) => block.text ?? "").join("");
}

/** The answer of a user: a value of the required type for each property. */
export function filledIn(requestedSchema) {
  const kinds = { boolean: true, integer: 42, number: 4.2 };
  const filled = Object.entries(requestedSchema.properties).map(([name, schema]) => [name, kinds[schema.type] ?? "Ada"]);
  return { action: "accept", content: Object.fromEntries(filled) };
}

/** Repeats a check until it returns something. */
export async function until(look) {
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    await sleep(50);
  }
}
