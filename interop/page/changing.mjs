// Whoever acts on a page loses nothing and sends nothing else while other tasks change ten times a second.
import {
  admin, changes, durableAdmin, durableMcp, equal, forgive, mcp, open, run, longhaul, start, startAt, step, submit, waitForHeading, anotherBrowser,
} from "./support.mjs";

/** A press of the mouse, as long as one of a hand. */
const HAND = 150;
const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25" };

/** Calls a tool that ends at once, ten times a second, while `work` runs. */
async function whileOthersChange(url, name, args, work) {
  const call = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args, task: {} } });
  let isOver = false;
  const others = (async () => {
    while (!isOver) {
      await (await fetch(url, { method: "POST", headers, body: call })).text();
      await new Promise((done) => setTimeout(done, 100));
    }
  })();
  try {
    return await work();
  } finally {
    isOver = true;
    await others;
  }
}
const whileDurableChange = (work) => whileOthersChange(durableMcp, "steps", {}, work);
const whileQuickChange = (work) => whileOthersChange(mcp, "quick", { words: "x" }, work);

const main = (page) => page.$eval("main", (main) => main.textContent.replace(/\s+/g, " "));
const isTicked = (page) => page.$eval("section.question input[type=checkbox]", (box) => box.checked);

async function asking() {
  const id = await startAt(durableMcp, "asks");
  const page = await open(`/tasks/${id}`, { at: durableAdmin });
  await page.waitForSelector("section.question", { timeout: 20_000 });
  return { id, page };
}

await step("a form that was filled in with the keyboard is sent as it is while others change", () =>
  whileDurableChange(async () => {
    const { page } = await asking();
    await page.focus("section.question input[type=checkbox]");
    await page.keyboard.press("Space");
    await changes(page);
    await page.keyboard.press("Tab");
    await changes(page);
    equal(await isTicked(page), true, "the box");
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    await waitForHeading(page, "succeeded");
    equal((await main(page)).includes("sure: true"), true, await main(page));
    await page.close();
  }),
);

await step("a form that was filled in with the mouse is sent as it is while others change", () =>
  whileDurableChange(async () => {
    const { page } = await asking();
    await page.click("section.question input[type=checkbox]", { delay: HAND });
    await page.click("h1", { delay: HAND });
    await changes(page);
    equal(await isTicked(page), true, "the box");
    await Promise.all([page.waitForNavigation(), page.click("section.question button[value=accept]", { delay: HAND })]);
    await waitForHeading(page, "succeeded");
    equal((await main(page)).includes("sure: true"), true, await main(page));
    await page.close();
  }),
);

await step("a filter that was filled in is used as it is while others change", () =>
  whileQuickChange(async () => {
    const page = await open("/");
    await page.click("#filter summary");
    await page.type("#filter input[name=text]", "abc");
    await page.click("h1");
    await changes(page);
    await Promise.all([page.waitForNavigation(), page.click("#filter form button", { delay: HAND })]);
    equal(new URL(page.url()).searchParams.get("text"), "abc", "the filter");
    await page.close();
  }),
);

await step("a press does what it is for, however much changes before it is released", () =>
  whileQuickChange(async () => {
    const page = await open("/tools");
    for (const action of ["pause", "resume"]) {
      const selector = `form[action="/tools/hold/${action}"] button`;
      const { x, y, width, height } = await (await page.waitForSelector(selector)).boundingBox();
      await page.mouse.move(x + width / 2, y + height / 2);
      await page.mouse.down();
      await changes(page);
      await Promise.all([page.waitForNavigation(), page.mouse.up()]);
    }
    await page.waitForSelector('form[action="/tools/hold/pause"] button');
    await page.close();
    const task = await open(`/tasks/${await start("hold", "words=pressed")}`);
    await waitForHeading(task, "running");
    await task.focus("#cancel summary");
    await task.keyboard.down("Space");
    await changes(task);
    await task.keyboard.up("Space");
    equal(await task.$eval("#cancel", (details) => details.open), true, "what a key has opened");
    await changes(task);
    equal(await task.$eval("#cancel", (details) => details.open), true, "what stays open");
    await submit(task, "#cancel button");
    await waitForHeading(task, "cancelled");
    await task.close();
  }),
);

await step("a form of a question that another browser has answered says so, and is not sent", async () => {
  const { id, page } = await asking();
  await page.click("section.question input[type=checkbox]");
  const other = await open(`/tasks/${id}`, { at: durableAdmin, inBrowser: anotherBrowser });
  await submit(other, "section.question button[value=decline]");
  await waitForHeading(page, "failed");
  equal((await page.$eval("section.question [role=alert]", (alert) => alert.textContent)).startsWith("This is not offered any more"), true, "the notice");
  equal(await isTicked(page), true, "the box");
  const sent = [];
  page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
  await page.click("section.question button[value=accept]");
  equal(sent, [], "what was sent");
  await page.$eval("section.question [role=alert] a", (link) => link.click());
  await page.waitForFunction(() => !document.querySelector("section.question"), { timeout: 20_000 });
  await Promise.all([page.close(), other.close()]);
});

await step("what has become of many tasks stays on the page", async () => {
  await startAt(mcp, "hold", "words=many");
  const page = await open("/bulk/cancel?state=live&tool=hold");
  await submit(page, "main form button");
  const said = await main(page);
  equal(/Cancelled: [0-9]+\./.test(said), true, said);
  const asked = [];
  page.on("request", (request) => request.url().includes("/bulk/") && asked.push(request.url()));
  await whileQuickChange(() => changes(page));
  equal(await main(page), said, "the page");
  equal(asked, [], "what was asked for");
  await page.close();
});

await step("a log that follows is scrolled with the keyboard", async () => {
  const page = await open(`/tasks/${await start("writes", "words=x")}`);
  const lines = () => page.$eval(".log", (log) => log.textContent.trim().split("\n").length);
  await page.waitForFunction(() => /line 100\n/.test(document.querySelector(".log")?.textContent ?? ""), { timeout: 30_000 });
  await page.focus(".log");
  const grown = async () => {
    const before = await lines();
    await page.waitForFunction((before) => document.querySelector(".log").textContent.trim().split("\n").length > before, { timeout: 20_000 }, before);
    equal(await page.evaluate(() => document.activeElement.className), "log", "the focus");
  };
  const isAtEnd = () => page.$eval(".log", (log) => log.scrollTop + log.clientHeight >= log.scrollHeight - 4);
  await grown();
  equal(await isAtEnd(), true, "a log that nobody scrolls is at its end");
  await page.keyboard.press("PageUp", { delay: HAND });
  await page.waitForFunction(() => document.querySelector(".log").scrollTop + document.querySelector(".log").clientHeight < document.querySelector(".log").scrollHeight - 100);
  await grown();
  await grown();
  equal(await isAtEnd(), false, "a log that was scrolled");
  await page.close();
});

await step("a refused answer is shown in its form with what is wrong", async () => {
  const id = await start("asker_deploy");
  const page = await open(`/tasks/${id}`);
  await page.waitForSelector("section.question", { timeout: 20_000 });
  const { stderr } = await run(longhaul, ["admin", "answer", admin, id]).catch((error) => error);
  equal(stderr.includes("(1 to 100)") && stderr.includes("(how many: 1 to 2)"), true, stderr);
  equal((await main(page)).includes("required, how many: 1 to 2"), true, await main(page));
  await page.select('[name="field.target"]', "production");
  await page.$eval('[name="field.percent"]', (field) => (field.value = ""));
  await page.type('[name="field.percent"]', "77");
  for (const box of ["unit", "e2e", "load"]) await page.click(`[name="field.checks"][value=${box}]`);
  await page.type('[name="field.reason"]', "because");
  const [answer] = await Promise.all([page.waitForNavigation(), page.click("section.question button[value=accept]")]);
  equal(answer.status(), 400, "the answer");
  const values = () =>
    page.$$eval("section.question [name^=field]", (fields) => fields.map((field) => (field.type === "checkbox" ? field.checked : field.value)));
  const entered = ["production", "77", true, true, true, "because", false];
  equal(await values(), entered, "what was entered");
  equal(await page.$eval("section.question fieldset", (field) => field.getAttribute("aria-invalid")), "true", "the field that is wrong");
  // The page follows the task, and the form keeps what was entered.
  const others = [];
  page.on("response", (response) => !response.ok() && others.push(response.url()));
  await whileQuickChange(() => changes(page));
  equal([await values(), others], [entered, []], "after changes");
  await page.click('[name="field.checks"][value=load]');
  await submit(page, "section.question button[value=accept]");
  await waitForHeading(page, "succeeded");
  equal((await main(page)).includes("production"), true, await main(page));
  forgive(400);
  await page.close();
});

await step("a page says what the server has answered", async () => {
  const said = (page) => page.$eval("#live", (live) => live.textContent);
  for (const path of ["/login", "/?state=nonsense", "/tasks/nothing", "/nothing", "/tasks/nothing/reset"]) {
    const page = await open(path);
    equal([await said(page), (await page.$$("main h1")).length], ["", 1], path);
    await page.close();
  }
  const id = await start("quick", "words=deleted");
  const [page, other] = [await open(`/tasks/${id}`), await open(`/tasks/${id}`, { inBrowser: anotherBrowser })];
  await waitForHeading(other, "succeeded");
  await submit(other, "#delete button", "#delete summary");
  await waitForHeading(page, "Not found");
  equal(await said(page), "", "a deleted task");
  for (const status of [400, 404]) forgive(status);
  await Promise.all([page.close(), other.close()]);
});

await step("a press that was meant for another button is not carried out", async () => {
  const [page, other] = [await open("/tools"), await open("/tools", { inBrowser: anotherBrowser })];
  const button = (name) => `form[action="/tools/quick/${name}"] button`;
  const { x, y } = await (await page.$(button("pause"))).clickablePoint();
  await page.mouse.move(x, y);
  await submit(other, button("pause"));
  await page.waitForSelector(button("resume"));
  const press = async () => {
    await page.mouse.down();
    await new Promise((done) => setTimeout(done, HAND));
    await page.mouse.up();
  };
  await press();
  await page.waitForFunction(() => document.getElementById("live").textContent.includes("press again"));
  equal((await (await fetch(`${admin}/api/tools`)).json()).find((tool) => tool.name === "quick").paused, true, "paused");
  await new Promise((done) => setTimeout(done, 1_000));
  await Promise.all([page.waitForNavigation(), press()]);
  equal((await (await fetch(`${admin}/api/tools`)).json()).find((tool) => tool.name === "quick").paused, false, "paused");
  await Promise.all([page.close(), other.close()]);
});

await step("what was entered stays when the session has ended", async () => {
  const { page } = await asking();
  await page.click("section.question input[type=checkbox]");
  await page.setRequestInterception(true);
  page.on("request", (request) => (request.url().endsWith("/api/stats") ? request.respond({ status: 401 }) : request.continue()));
  await page.click("section.question button[value=accept]");
  await page.waitForFunction(() => document.getElementById("live").textContent.startsWith("logged out, and nothing was sent"));
  forgive(401);
  equal(await isTicked(page), true, "the box");
  await page.close();
});
