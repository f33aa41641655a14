// How the scripts tell what they saw: one line of JSON for each step, one at the end, and an exit status for all of them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

// Longer than any step takes, shorter than anyone's patience.
const PATIENCE_MS = 30_000;

/** Where the command line says that the server is: `--url URL` or `--stdio PROGRAM [ARG …]`. */
export function server() {
  const [how, first, ...rest] = process.argv.slice(2);
  if (how === "--url" && first) return { url: new URL(first) };
  if (how === "--stdio" && first) return { command: first, args: rest };
  console.error("usage: node SCRIPT --url URL | --stdio PROGRAM [ARG …]");
  process.exit(2);
}

/** Runs steps, goes on after one that fails, and in the end exits with 0 only if all were well. */
export async function run(packageName, steps) {
  const client = `${packageName} ${version(packageName)}`;
  let failed = 0;
  for (const [step, act] of Object.entries(steps)) {
    try {
      await within(PATIENCE_MS, act());
      tell({ client, step, ok: true });
    } catch (error) {
      failed += 1;
      tell({ client, step, ok: false, error: String(error?.message ?? error).replace(/\s+/g, " ") });
    }
  }
  tell({ client, done: Object.keys(steps).length });
  process.exit(failed ? 1 : 0);
}

/** The version that is installed. */
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

/** The error that a request is answered with. */
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

/** What a user would answer: something of the kind that each property wants. */
export function filledIn(requestedSchema) {
  const kinds = { boolean: true, integer: 42, number: 4.2 };
  const filled = Object.entries(requestedSchema.properties).map(([name, schema]) => [name, kinds[schema.type] ?? "Ada"]);
  return { action: "accept", content: Object.fromEntries(filled) };
}

/** Looks until there is something to see. */
export async function until(look) {
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    await sleep(50);
  }
}
