// The pages of an operator in a real browser: every action, two browsers at one task, both themes, a narrow screen, no scripts.
//
// Arguments: the URL of the admin address, the URL of the MCP endpoint, the program `longhaul`, the browser, a folder for screenshots.
// A second server has durable tools: its URLs are in DURABLE_ADMIN and DURABLE_URL. What its tool `changed` does depends on the file DURABLE_WORD.
// Writes a line of JSON for each step.
import { rejects } from "node:assert/strict";
import { execFile } from "node:child_process";
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
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
  return startAt(mcp, tool, ...words);
}

async function startAt(url, tool, ...words) {
  const { stdout } = await run(longhaul, ["call", url, tool, ...words, "--detach"]);
  return stdout.trim();
}

/** Whether each write of the first server to a file fails as on a full disk: see crates/shim/README.md. */
function fillDisk(isFull) {
  const [failWrites, noSpace] = [8, 28];
  const number = Buffer.alloc(8);
  number.writeUInt8(isFull ? noSpace : 0);
  const file = openSync(process.env.FAULTS, "r+");
  writeSync(file, number, 0, number.length, failWrites);
  closeSync(file);
}

const { DURABLE_ADMIN: durableAdmin, DURABLE_URL: durableMcp, DURABLE_WORD: word } = process.env;

const launch = () => puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const [browser, anotherBrowser] = [await launch(), await launch()];

/** A new page at a path. What it logs, and what its policy refuses, is an error. */
async function open(path, { width = 1200, dark = false, scripts = true, inBrowser = browser, at = admin } = {}) {
  const page = await inBrowser.newPage();
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.setJavaScriptEnabled(scripts);
  await page.goto(at + path);
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

// Its upstream is told as silent after a minute and a half: the question comes at the end.
const calledEarly = start("slow_look_up");

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

await step("a question is answered with its form, and another browser sees it", async () => {
  const id = await startAt(durableMcp, "asks");
  const [one, other] = [
    await open(`/tasks/${id}`, { at: durableAdmin }),
    await open(`/tasks/${id}`, { at: durableAdmin, inBrowser: anotherBrowser }),
  ];
  for (const page of [one, other]) await page.waitForSelector("section.question", { timeout: 20_000 });
  equal(await one.$eval("section.question h2", (h2) => h2.textContent), "It asks: Are you sure?", "the question");
  await one.click('section.question input[type="checkbox"]');
  await submit(one, 'section.question button[value="accept"]');
  for (const page of [one, other]) await waitForHeading(page, "succeeded");
  equal((await other.$eval("main", (main) => main.textContent)).includes("sure: true"), true, "its result");
  await Promise.all([one.close(), other.close()]);
});

await step("a question is declined", async () => {
  const page = await open(`/tasks/${await startAt(durableMcp, "asks")}`, { at: durableAdmin, scripts: false });
  for (let tries = 0; !(await page.$("section.question")); tries += 1) {
    if (tries > 100) throw new Error(await heading(page));
    await page.reload();
  }
  await submit(page, 'section.question button[value="decline"]');
  for (let tries = 0; !(await heading(page)).includes("failed"); tries += 1) {
    if (tries > 100) throw new Error(await heading(page));
    await page.reload();
  }
  await page.close();
});

await step("a durable task is reset to before an entry", async () => {
  const id = await startAt(durableMcp, "steps");
  const page = await open(`/tasks/${id}`, { at: durableAdmin });
  await waitForHeading(page, "succeeded");
  await submit(page, 'a[href$="/reset?before=2"]');
  equal(await heading(page), "Reset to before entry 2", "the question");
  equal(await page.$$eval("tbody tr", (rows) => rows.length), 1, "the dropped entries");
  await page.screenshot({ path: join(screenshots, "reset-1200-light.png") });
  await submit(page, "main form button");
  await waitForHeading(page, "succeeded");
  equal(page.url().endsWith(id), false, "the new task has an address of its own");
  await page.goto(`${durableAdmin}/tasks/${id}`);
  equal(await page.$('a[href*="/reset?"]'), null, "it is reset once");
  await page.close();
});

await step("a task that new code has blocked says so on the first page, and is released", async () => {
  const id = await startAt(durableMcp, "changed");
  const page = await open(`/tasks/${id}`, { at: durableAdmin });
  await page.waitForSelector("section.question", { timeout: 20_000 });
  writeFileSync(word, "new");
  await page.click('section.question input[type="checkbox"]');
  await submit(page, 'section.question button[value="accept"]');
  await waitForHeading(page, "blocked");
  const first = await open("/", { at: durableAdmin });
  await first.waitForFunction((id) => document.querySelector(".problem")?.textContent.includes(id), { timeout: 20_000 }, id);
  await first.close();
  writeFileSync(word, "old");
  await submit(page, `form[action="/tasks/${id}/release"] button`);
  await waitForHeading(page, "succeeded");
  await page.close();
});

await step("a list says why a command has failed, and what was made of the task", async () => {
  const id = await start("fail", "words=the-reason");
  const page = await open("/?state=failed&tool=fail");
  const row = (text) =>
    page.waitForFunction(
      (id, text) => [...document.querySelectorAll("tbody tr")].some((row) => row.textContent.includes(id) && row.textContent.includes(text)),
      { timeout: 20_000 }, id, text);
  await row("sh exited with code 3: the-reason");
  const { stdout } = await run(longhaul, ["admin", "retry", admin, id]);
  await row(`retried as ${stdout.trim()}`);
  await page.close();
});

await step("a filter that names nothing says so", async () => {
  const page = await open("/?tool=hodl", { scripts: false });
  equal((await page.$eval('[role="alert"]', (alert) => alert.textContent)).startsWith("there is no tool `hodl`"), true, "the hint");
  equal((await fetch(`${admin}/audit?outcome=fine`)).status, 400, "an outcome that there is not");
  await page.close();
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

/** What `longhaul admin` prints, whatever its status. */
async function shell(...args) {
  try {
    const { stdout } = await run(longhaul, ["admin", ...args]);
    return stdout;
  } catch (error) {
    if (typeof error.stdout !== "string") throw error;
    return error.stdout;
  }
}

/**
 * One of the questions that an operator asks at night: it is staged, and then answered from a page and from a shell. Returns how long both took, in milliseconds, the
 * first draw of the page and the start of the program included.
 */
async function night(name, { stage, path, at = admin, says, command }) {
  await step(`at night: ${name}`, async () => {
    const { path: there = path, says: text = says, command: words = command } = (await stage()) ?? {};
    const onPage = performance.now();
    const page = await open(there, { at });
    await page.waitForFunction((text) => document.querySelector("main").textContent.replace(/\s+/g, " ").includes(text), { timeout: 20_000 }, text);
    const pageMillis = Math.round(performance.now() - onPage);
    await page.screenshot({ path: join(screenshots, `night-${name.replace(/[^a-z]+/g, "-")}.png`) });
    await page.close();
    const inShell = performance.now();
    let printed = "";
    for (let tries = 0; !printed.replace(/\s+/g, " ").includes(text); tries += 1) {
      if (tries > 40) throw new Error(`${words.join(" ")} does not say ${text}:\n${printed}`);
      printed = await shell(words[0], at, ...words.slice(1));
    }
    return { pageMillis, shellMillis: Math.round(performance.now() - inShell) };
  });
}

await night("what holds up this queue", {
  stage: async () => {
    await start("one");
    const id = await start("one");
    return { path: `/tasks/${id}`, command: ["task", id] };
  },
  says: "at most 1 of its tool run at once, 1 run and 1 are queued",
});
await night("what runs for long", {
  stage: async () => ({ says: await start("hold", "words=long") }),
  path: "/?state=running&tool=hold",
  command: ["tasks", "--state", "running", "--tool", "hold"],
});
await night("why has it failed", {
  stage: async () => void (await start("fail", "words=no-such-table")),
  path: "/?state=failed&tool=fail",
  says: "sh exited with code 3: no-such-table",
  command: ["tasks", "--state", "failed", "--tool", "fail"],
});
await night("which tool is broken", {
  stage: async () => {
    for (let times = 0; times < 5; times += 1) await start("fail", "words=no-such-table");
  },
  path: "/",
  says: "attempts of fail have failed; the latest task: sh exited with code 3: no-such-table",
  command: ["doctor"],
});
await night("why does nothing of this tool begin", {
  stage: async () => {
    await shell("pause", admin, "quick");
    await start("quick", "words=waits");
  },
  path: "/",
  says: "the tool is paused, and what waits fails after `queue_timeout`: resume it",
  command: ["doctor"],
});
await shell("resume", admin, "quick");
await night("which upstream is away and why", {
  stage: async () => {},
  path: "/",
  says: "the upstream away does not answer",
  command: ["doctor"],
});
await night("what has the deploy broken", {
  at: durableAdmin,
  stage: async () => {
    const id = await startAt(durableMcp, "changed");
    const page = await open(`/tasks/${id}`, { at: durableAdmin });
    await page.waitForSelector("section.question", { timeout: 20_000 });
    await page.close();
    writeFileSync(word, "new");
    await shell("answer", durableAdmin, id, "sure:=true");
    return { says: `changed ${id} is blocked (non-determinism)` };
  },
  path: "/",
  command: ["doctor"],
});
await night("which task crashes again and again", {
  at: durableAdmin,
  stage: async () => {
    const id = await startAt(durableMcp, "crashes");
    const page = await open(`/tasks/${id}`, { at: durableAdmin });
    await waitForHeading(page, "blocked");
    await page.close();
    return { says: `crashes ${id} is blocked (poisoned): 5 attempts failed without forward progress` };
  },
  path: "/",
  command: ["doctor"],
});
await night("which question does nobody answer", {
  at: durableAdmin,
  stage: async () => void (await startAt(durableMcp, "asks")),
  path: "/?asks=yes",
  says: "asks: Are you sure?",
  command: ["tasks", "--asks"],
});
await night("who has cancelled it", {
  stage: async () => {
    const id = await start("hold", "words=cancelled");
    await shell("cancel", admin, id);
    return { path: `/audit?action=cancel&task=${id}`, command: ["audit", "--action", "cancel", "--task", id] };
  },
  says: "operator",
});
await night("what does a slow upstream hold up", {
  stage: async () => {
    await calledEarly;
    const id = await start("slow_look_up");
    const page = await open(`/tasks/${id}`);
    await waitForHeading(page, "running");
    await page.close();
    return { path: `/tasks/${id}`, command: ["task", id] };
  },
  says: "waits",
});
await night("which upstream is slow", {
  stage: async () => {
    const page = await open("/upstreams");
    await page.waitForFunction(() => document.querySelector("main").textContent.includes("silent"), { timeout: 120_000 });
    await page.close();
  },
  path: "/",
  says: "the upstream slow does not answer: one call and pings have had no answer for",
  command: ["doctor"],
});
await night("who floods the server", {
  stage: async () => {
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "hold", arguments: { words: "many" }, task: {} } };
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25" };
    for (let calls = 0; calls < 70; calls += 1) {
      await (await fetch(mcp, { method: "POST", headers, body: JSON.stringify(call) })).text();
    }
  },
  path: "/",
  says: "has 60 live tasks, and may have 60: its calls are refused",
  command: ["doctor"],
});
await shell("cancel", admin, "--all", "--state", "live", "--yes");

let acknowledged;
await night("why are calls refused", {
  stage: async () => {
    acknowledged = await start("hold", "words=kept");
    fillDisk(true);
    await rejects(start("hold", "words=refused"));
    return { says: "the disk is full: calls are refused" };
  },
  path: "/",
  command: ["doctor"],
});
await step("the disk has room again", async () => {
  fillDisk(false);
  // The browser says of a page that was open meanwhile that /readyz has answered 503.
  equal(messages.splice(0).filter((message) => !message.includes("503")), [], "messages");
  // Half a minute after the last failed write.
  for (let tries = 0; (await fetch(`${admin}/readyz`)).status !== 200; tries += 1) {
    if (tries > 600) throw new Error(await (await fetch(`${admin}/readyz`)).text());
    await new Promise((done) => setTimeout(done, 100));
  }
  await start("quick", "words=again");
  const page = await open(`/tasks/${acknowledged}`);
  equal(await heading(page), "hold running", "the task that was acknowledged before");
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
