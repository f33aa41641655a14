// What the page costs with many tasks and with many who watch it.
//
// Arguments: the URL of the admin address, the URL of the MCP endpoint, the process id of the server, the browser. Of the server, the tool `steps` is called and its
// tasks are kept. Writes one line of JSON.
import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import puppeteer from "puppeteer-core";

const [admin, mcp, pid, executablePath] = process.argv.slice(2);
const [MANY, AT_ONCE, WATCHERS, TURNS] = [Number(process.env.TASKS ?? 100_000), 64, 200, 11];
const TICKS = 100;
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const say = (text) => console.error(text);

const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25" };
let requests = 0;

async function request(method, params) {
  requests += 1;
  const body = JSON.stringify({ jsonrpc: "2.0", id: requests, method, params });
  const answer = await fetch(mcp, { method: "POST", headers, body });
  if (!answer.ok) throw new Error(`${method}: ${answer.status}: ${await answer.text()}`);
  const session = answer.headers.get("mcp-session-id");
  if (session) headers["mcp-session-id"] = session;
  const text = await answer.text();
  return JSON.parse(text.startsWith("{") ? text : text.slice(text.indexOf("data:") + 5).split("\n")[0]);
}

const create = (name) => request("tools/call", { name, arguments: {}, task: {} });

/** So many tasks of a tool, several at once. */
async function createAll(name, count) {
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const { error } = await create(name);
      if (error) throw new Error(JSON.stringify(error));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function live() {
  const stats = await (await fetch(`${admin}/api/stats`)).json();
  return stats.queued + stats.running;
}

/** Processor time of the server until now, in seconds. */
function cpu() {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

const median = (numbers) => numbers.sort((one, other) => one - other)[Math.floor(numbers.length / 2)];

/** How long a page takes, from the request to its first paint, and how long only its answer takes. Medians, in milliseconds. */
async function paint(browser, path) {
  const [paints, answers] = [[], []];
  for (let turn = 0; turn < TURNS; turn += 1) {
    const page = await browser.newPage();
    await page.goto(`${admin}${path}`);
    const seen = await page.waitForFunction(
      () => {
        const [first] = performance.getEntriesByName("first-contentful-paint");
        const [{ responseEnd }] = performance.getEntriesByType("navigation");
        return first && { paint: first.startTime, answer: responseEnd };
      },
      { timeout: 60_000 },
    );
    const { paint, answer } = await seen.jsonValue();
    paints.push(paint);
    answers.push(answer);
    await page.close();
  }
  return { paintMillis: Math.round(median(paints)), answerMillis: Math.round(median(answers)) };
}

/** From one page of the list to the next by its link, a hundred times at most. */
async function scroll(browser) {
  const page = await browser.newPage();
  await page.goto(`${admin}/`);
  const taken = [];
  while (taken.length < 100 && (await page.$('a[rel="next"]'))) {
    const begun = performance.now();
    await Promise.all([page.waitForNavigation({ waitUntil: "domcontentloaded" }), page.click('a[rel="next"]')]);
    taken.push(performance.now() - begun);
  }
  const rows = await page.$$eval("tbody tr", (rows) => rows.length);
  await page.close();
  const end = Math.ceil(taken.length / 5);
  return { pages: taken.length, rows, firstMillis: Math.round(median(taken.slice(0, end))), lastMillis: Math.round(median(taken.slice(-end))) };
}

/** One that watches the list as live.js does: it is told of changes, and then loads the page. */
async function watch(path, stop, counts) {
  const events = await fetch(`${admin}/api/events`, { signal: stop });
  const version = /data-version="([^"]*)"/;
  let shown = version.exec(await (await fetch(`${admin}${path}`)).text())?.[1];
  let text = "";
  for await (const chunk of events.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      const data = /^data: ?(.*)$/m.exec(event)?.[1];
      if (!/^event: ?change$/m.test(event) || data === shown) continue;
      counts.drawn += 1;
      shown = version.exec(await (await fetch(`${admin}${path}`)).text())?.[1];
    }
  }
}

/** The share of a processor that the server takes while something is done, in percent. */
async function share(seconds, during) {
  const [before, begun] = [cpu(), performance.now()];
  await during(begun + seconds * 1_000);
  const taken = (performance.now() - begun) / 1_000;
  return Math.round(((cpu() - before) / taken) * 10_000) / 100;
}

async function changes(until, perSecond) {
  while (performance.now() < until) {
    await create("steps");
    await pause(1_000 / perSecond);
  }
}

await request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "figures", version: "1" } });
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const figures = {};
for (const tasks of [1_000, MANY]) {
  say(`${tasks} tasks are made`);
  await createAll("steps", figures.made ? tasks - figures.made : tasks);
  figures.made = tasks;
  while ((await live()) > 0) await pause(200);
  figures[`tasks${tasks}`] = {
    list: await paint(browser, "/"),
    failed: await paint(browser, "/?state=failed"),
    text: await paint(browser, "/?text=nowhere"),
    next: await scroll(browser),
  };
}
await browser.close();

say("nobody watches");
const alone = { idle: await share(20, (until) => pause(until - performance.now())), oneTaskPerSecond: await share(20, (until) => changes(until, 1)) };
const stop = new AbortController();
const counts = { drawn: 0 };
const watchers = Array.from({ length: WATCHERS }, () => watch("/", stop.signal, counts).catch((error) => stop.signal.aborted || say(String(error))));
await pause(5_000);
say(`${WATCHERS} watch`);
const watched = { idle: await share(30, (until) => pause(until - performance.now())) };
counts.drawn = 0;
watched.oneTaskPerSecond = await share(30, (until) => changes(until, 1));
watched.pagesPerSecond = Math.round(counts.drawn / 30);
stop.abort();
await Promise.all(watchers);
console.log(JSON.stringify({ ...figures, cpuPercent: { alone, watched } }));
