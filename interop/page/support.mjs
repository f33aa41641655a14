// The pages of an operator in a real browser: every action, two browsers at one task, both themes, a narrow screen, no scripts.
//
// Arguments: the URL of the admin address, the URL of the MCP endpoint, the program `longhaul`, the browser, a folder for screenshots.
// A second server has durable tools: its URLs are in DURABLE_ADMIN and DURABLE_URL. What its tool `changed` does depends on the file DURABLE_WORD.
// The file FAULTS fails writes of the first server, and METRICS_KEY has its key for /metrics.
// Writes a line of JSON for each step.
import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { promisify } from "node:util";
import puppeteer from "puppeteer-core";

export const [admin, mcp, longhaul, executablePath, screenshots] = process.argv.slice(2);
mkdirSync(screenshots, { recursive: true });
export const run = promisify(execFile);
export const messages = [];
let failed = 0;

export async function step(name, work) {
  try {
    const detail = await work();
    console.log(JSON.stringify({ step: name, ok: true, detail }));
  } catch (error) {
    failed += 1;
    console.log(JSON.stringify({ step: name, ok: false, detail: String(error.stack ?? error) }));
  }
}

export function equal(found, wanted, what) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
  }
}

/** Starts a task and returns its id. */
export async function start(tool, ...words) {
  return startAt(mcp, tool, ...words);
}

export async function startAt(url, tool, ...words) {
  const { stdout } = await run(longhaul, ["call", url, tool, ...words, "--detach"]);
  return stdout.trim();
}

export const { DURABLE_ADMIN: durableAdmin, DURABLE_URL: durableMcp, DURABLE_WORD: word } = process.env;

const launch = () => puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
export const [browser, anotherBrowser] = [await launch(), await launch()];

/** How long a press takes, in milliseconds. Those of people are no shorter. */
const PRESS = 120;
/** Some frames, in milliseconds. */
const FRAMES = 50;

/** A new page at a path. What it logs, and what its policy refuses, is an error. */
export async function open(path, { width = 1200, dark = false, scripts = true, inBrowser = browser, at = admin } = {}) {
  const page = await inBrowser.newPage();
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.setJavaScriptEnabled(scripts);
  const click = page.click.bind(page);
  page.click = async (selector, options) => {
    // A hand moves to what it presses, also if something else was there before.
    await page.mouse.move(1, 1);
    // Moves within one frame are one event.
    await new Promise((done) => setTimeout(done, FRAMES));
    await click(selector, { delay: PRESS, ...options });
  };
  await page.goto(at + path);
  return page;
}

export const heading = (page) => page.$eval("h1", (h1) => h1.textContent.replace(/\s+/g, " ").trim());
export const waitForHeading = (page, text) =>
  page.waitForFunction((text) => document.querySelector("h1").textContent.includes(text), { timeout: 20_000 }, text);

/** Clicks what submits a form, below what has to be opened first, and waits for the page behind it. */
export async function submit(page, selector, summary) {
  if (summary) await page.click(summary);
  await Promise.all([page.waitForNavigation(), page.click(selector)]);
}

/** Waits until other things have changed so often that each page which is open has been drawn anew, or has put it off. */
export async function changes(page) {
  await page.evaluate(
    () =>
      new Promise((done) => {
        let left = 3;
        const events = new EventSource("/api/events");
        events.addEventListener("change", () => {
          left -= 1;
          if (left > 0) return;
          events.close();
          done();
        });
      }),
  );
}

/** Forgets that the browser has complained about answers with this status. */
export function forgive(status) {
  messages.splice(0, messages.length, ...messages.filter((message) => !message.includes(`status of ${status}`)));
}

/** What `longhaul admin` prints, whatever its status. */
export async function shell(...args) {
  try {
    const { stdout } = await run(longhaul, ["admin", ...args]);
    return stdout;
  } catch (error) {
    if (typeof error.stdout !== "string") throw error;
    return error.stdout;
  }
}

/** Ends the script, with the status that says whether all steps have passed. */
export async function finish() {
  await Promise.all([browser.close(), anotherBrowser.close()]);
  process.exit(failed === 0 ? 0 : 1);
}
