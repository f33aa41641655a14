// Every action of an operator, and that all who watch see it.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  admin, anotherBrowser, browser, durableAdmin, durableMcp, equal, heading, longhaul, open, run, screenshots, start, startAt, step, submit, waitForHeading, word,
} from "./support.mjs";

await step("the list follows what happens, without a reload", async () => {
  const page = await open("/?state=live");
  equal(await page.$$eval("tbody tr", (rows) => rows.length), 0, "rows");
  const id = await start("hold", "words=one");
  await page.waitForFunction((id) => document.body.textContent.includes(id.slice(-8)), { timeout: 20_000 }, id);
  await page.close();
});

// It is asked about in night.mjs: its upstream is told as silent after a minute and a half.
export const calledEarly = start("slow_look_up");

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
      { timeout: 20_000 }, id.slice(-8), text);
  await row("sh exited with code 3: the-reason");
  const { stdout } = await run(longhaul, ["admin", "retry", admin, id]);
  await row(`retried as …${stdout.trim().slice(-8)}`);
  await page.close();
});

await step("a tool is called by its form, and its times are those of the browser", async () => {
  const page = await open("/tools/hold/call");
  await page.type('[name="field.words"]', "by hand");
  await submit(page, "main form button");
  equal((await heading(page)).startsWith("hold"), true, "the new task");
  const time = await page.$eval("dd time", (time) => ({ shown: time.textContent, title: time.title }));
  equal(/UTC$/.test(time.title) && !/UTC$/.test(time.shown), true, `the time: ${JSON.stringify(time)}`);
  await submit(page, "#cancel button", "#cancel summary");
  await waitForHeading(page, "cancelled");
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
