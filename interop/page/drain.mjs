// The server is stopped from its page.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { admin, equal, heading, open, screenshots, step, submit } from "./support.mjs";

await step("a server is stopped after a question, without a script, and its last page is whole", async () => {
  const page = await open("/nodes", { scripts: false });
  await page.click("#drain summary");
  await page.screenshot({ path: join(screenshots, "drain.png") });
  await submit(page, "#drain button");
  equal(await heading(page), "The server stops", "its last page");
  equal(await page.$eval("header", (header) => getComputedStyle(header).display), "flex", "the style of its last page");
  for (let tries = 0; await fetch(`${admin}/healthz`).then(() => true, () => false); tries += 1) {
    if (tries > 200) throw new Error("the server goes on");
    await new Promise((done) => setTimeout(done, 100));
  }
  const log = readFileSync(join(dirname(process.env.METRICS_KEY), "audit.jsonl"), "utf8");
  const last = JSON.parse(log.trim().split("\n").findLast((line) => line.includes('"drain"')));
  equal([last.principal, last.outcome], ["operator", "ok"], "its line of the audit log");
  await page.close();
});
