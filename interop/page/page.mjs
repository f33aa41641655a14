// The pages of an operator in a real browser: every action, two browsers at one task, both themes, a narrow screen, no scripts.
//
// Arguments: the URL of the admin address, the URL of the MCP endpoint, the program `longhaul`, the browser, a folder for screenshots.
// Writes a line of JSON for each step.
import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import puppeteer from "puppeteer-core";

const [admin, mcp, longhaul, executablePath, screenshots] = process.argv.slice(2);
mkdirSync(screenshots, { recursive: true });
const run = promisify(execFile);
const messages = [];
let failed = 0;

async function step(name, work) {
  try {
    const detail = await work();
    console.log(JSON.stringify({ step: name, ok: true, detail }));
  } catch (error) {
    failed += 1;
    console.log(JSON.stringify({ step: name, ok: false, detail: String(error.stack ?? error) }));
  }
}

function equal(found, wanted, what) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
  }
}

/** Starts a task and returns its id. */
async function start(tool, ...words) {
  const { stdout } = await run(longhaul, ["call", mcp, tool, ...words, "--detach"]);
  return stdout.trim();
}

const launch = () => puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const [browser, anotherBrowser] = [await launch(), await launch()];

/** A new page at a path. What it logs, and what its policy refuses, is an error. */
async function open(path, { width = 1200, dark = false, scripts = true, inBrowser = browser } = {}) {
  const page = await inBrowser.newPage();
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.setJavaScriptEnabled(scripts);
  await page.goto(admin + path);
  return page;
}

const heading = (page) => page.$eval("h1", (h1) => h1.textContent.replace(/\s+/g, " ").trim());
const waitForHeading = (page, text) =>
  page.waitForFunction((text) => document.querySelector("h1").textContent.includes(text), { timeout: 20_000 }, text);

/** Clicks what submits a form, below what has to be opened first, and waits for the page behind it. */
async function submit(page, selector, summary) {
  if (summary) await page.click(summary);
  await Promise.all([page.waitForNavigation(), page.click(selector)]);
}

await step("the list follows what happens, without a reload", async () => {
  const page = await open("/?state=live");
  equal(await page.$$eval("tbody tr", (rows) => rows.length), 0, "rows");
  const id = await start("hold", "words=one");
  await page.waitForFunction((id) => document.body.textContent.includes(id), { timeout: 20_000 }, id);
  await page.close();
});

await step("two browsers see that one of them cancels", async () => {
  const id = await start("hold", "words=two");
  const [one, other] = [await open(`/tasks/${id}`), await open(`/tasks/${id}`, { inBrowser: anotherBrowser })];
  await waitForHeading(other, "running");
  await submit(one, "#cancel button", "#cancel summary");
  await waitForHeading(one, "cancelled");
  await waitForHeading(other, "cancelled");
  await submit(other, "#retry button", "#retry summary");
  equal((await heading(other)).startsWith("hold"), true, "the new task");
  equal(other.url() !== one.url(), true, "the new task has an address of its own");
  await submit(one, "#delete button", "#delete summary");
  equal(new URL(one.url()).pathname, "/", "after a deletion");
  await Promise.all([one.close(), other.close()]);
});

await step("text that is typed is not lost to a change", async () => {
  const page = await open("/");
  await page.click("#filter summary");
  await page.type("input[name=text]", "abc");
  await start("hold", "words=three");
  await new Promise((done) => setTimeout(done, 3_000));
  equal(await page.$eval("input[name=text]", (input) => input.value), "abc", "the field");
  await page.close();
});

await step("a tool is paused and resumed", async () => {
  const page = await open("/tools");
  await submit(page, 'form[action="/tools/quick/pause"] button');
  const id = await start("quick", "words=four");
  const task = await open(`/tasks/${id}`, { inBrowser: anotherBrowser });
  equal(await heading(task), "quick queued", "a task of a paused tool");
  await submit(page, 'form[action="/tools/quick/resume"] button');
  await waitForHeading(task, "succeeded");
  await Promise.all([page.close(), task.close()]);
});

await step("a queued task is raised before another one", async () => {
  const page = await open("/tools");
  await submit(page, 'form[action="/tools/quick/pause"] button');
  await start("quick", "words=first");
  const id = await start("quick", "words=second");
  const task = await open(`/tasks/${id}`);
  await submit(task, `form[action="/tasks/${id}/raise"] button`);
  equal(await heading(task), "quick queued", "a raised task");
  await task.close();
  await submit(page, 'form[action="/tools/quick/resume"] button');
  await page.close();
});

await step("all tasks of a list are cancelled after a question, and deleted", async () => {
  const ids = [await start("hold", "words=many"), await start("hold", "words=many")];
  const watching = await open(`/tasks/${ids[1]}`, { inBrowser: anotherBrowser });
  await waitForHeading(watching, "running");
  const page = await open("/?state=live&tool=hold", { scripts: false });
  const [question] = await Promise.all([page.waitForNavigation(), page.click('a[href^="/bulk/cancel?"]')]);
  equal(question.status(), 200, "the question");
  equal(/^Cancel [0-9]+ tasks$/.test(await heading(page)), true, await heading(page));
  await submit(page, "main form button");
  equal(/^Cancelled: [0-9]+\.$/.test((await page.$eval("[role=status]:not(#live)", (said) => said.textContent)).trim()), true, "what was done");
  await waitForHeading(watching, "cancelled");
  await page.goto(`${admin}/bulk/delete?state=cancelled&tool=hold`);
  await submit(page, "main form button");
  equal((await fetch(`${admin}/tasks/${ids[0]}`)).status, 404, "a deleted task");
  await Promise.all([page.close(), watching.close()]);
});

await step("who has live tasks is found", async () => {
  await start("hold", "words=mine");
  const page = await open("/principals");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1, { timeout: 20_000 });
  equal(await page.$eval("tbody a", (link) => link.getAttribute("href").startsWith("/?state=live&principal=")), true, "its tasks");
  await page.close();
});

await step("an upstream that is away says why, and a log that is written to follows", async () => {
  const page = await open("/upstreams");
  await page.waitForFunction(() => document.body.textContent.includes("API_KEY is missing"), { timeout: 20_000 });
  await page.close();
  const task = await open(`/tasks/${await start("counts", "words=x")}`);
  await task.waitForFunction(() => /7/.test(document.querySelector(".log")?.textContent ?? ""), { timeout: 30_000 });
  await task.close();
});

await step("who did what is found by its task", async () => {
  const id = await start("quick", "words=audited");
  const page = await open(`/tasks/${id}`, { scripts: false });
  await Promise.all([page.waitForNavigation(), page.click('a[href^="/audit?task="]')]);
  const rows = await page.$$eval("tbody tr", (rows) => rows.map((row) => row.textContent));
  equal(rows.some((row) => row.includes("create") && row.includes("quick")), true, rows.join("\n"));
  await page.close();
});

await step("a log is shown, and what failed is in red without a script", async () => {
  const id = await start("fail", "words=five");
  const page = await open(`/tasks/${id}`, { scripts: false });
  for (let tries = 0; !(await heading(page)).includes("failed"); tries += 1) {
    if (tries > 100) throw new Error(await heading(page));
    await page.reload();
  }
  equal(await page.$eval(".log", (log) => log.textContent.trim()), "five", "the log");
  await submit(page, "#retry button", "#retry summary");
  equal((await heading(page)).startsWith("fail"), true, "the new task");
  await page.close();
});

await step("a page says that the server takes no work, and when it does again", async () => {
  const page = await browser.newPage();
  let isReady = false;
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (isReady || !request.url().endsWith("/readyz")) return request.continue();
    return request.respond({ status: 503, body: "the store fails\n" });
  });
  await page.goto(admin);
  const says = (text) =>
    page.waitForFunction((text) => document.getElementById("live").textContent === text, { timeout: 30_000 }, text);
  await says("not ready: the store fails");
  isReady = true;
  await says("live");
  await page.close();
});

await step("the keyboard reaches everything in its order", async () => {
  const page = await open("/");
  const reached = [];
  for (let tabs = 0; tabs < 5; tabs += 1) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(() => document.activeElement.textContent.trim()));
  }
  equal(reached.slice(0, 2), ["To the content", "browser"], "the first two");
  equal(reached.includes("Tools"), true, reached.join(", "));
  await page.close();
});

await step("nothing is wider than the screen, and colours have contrast, in both themes", async () => {
  const id = await start("hold", "words=a-very-long-word-without-a-break-".repeat(10));
  for (const path of ["/", `/tasks/${id}`, "/tools", "/upstreams", "/principals", "/nodes", "/audit", "/bulk/cancel?state=live", "/login"]) {
    for (const [width, dark] of [[1200, false], [1200, true], [360, false], [360, true]]) {
      const page = await open(path, { width, dark });
      const scroll = await page.evaluate(() => document.documentElement.scrollWidth);
      equal(scroll <= width, true, `${path} at ${width} has ${scroll}`);
      const low = await page.evaluate(contrasts);
      equal(low, [], `contrast of ${path}, ${dark ? "dark" : "light"}`);
      const name = `${path.split("/")[1] || "tasks"}-${width}-${dark ? "dark" : "light"}.png`;
      await page.screenshot({ path: join(screenshots, name) });
      await page.close();
    }
  }
});

/** Texts whose contrast is below 4.5, which WCAG 2.2 AA requires. Runs in the page. */
function contrasts() {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const linear = [red, green, blue].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const back = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour[3] === undefined || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!hasText || !element.checkVisibility() || element.tagName === "OPTION") continue;
    const [text, behind] = [luminance(parts(getComputedStyle(element).color)), luminance(back(element))];
    const ratio = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
    if (ratio < 4.5) low.push(`${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return low;
}

await step("the browser has nothing to complain about", () => equal(messages, [], "messages"));
await Promise.all([browser.close(), anotherBrowser.close()]);
process.exit(failed === 0 ? 0 : 1);
