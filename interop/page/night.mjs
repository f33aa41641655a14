// The questions that an operator asks at night, each staged for real.
import { rejects } from "node:assert/strict";
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { calledEarly } from "./actions.mjs";
import {
  admin, durableAdmin, durableMcp, equal, heading, mcp, messages, open, screenshots, shell, start, startAt, step, waitForHeading, word,
} from "./support.mjs";

/** Whether each write of the first server to a file fails as on a full disk: see crates/shim/README.md. */
function fillDisk(isFull) {
  const [failWrites, noSpace] = [8, 28];
  const number = Buffer.alloc(8);
  number.writeUInt8(isFull ? noSpace : 0);
  const file = openSync(process.env.FAULTS, "r+");
  writeSync(file, number, 0, number.length, failWrites);
  closeSync(file);
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
  stage: async () => ({ says: (await start("hold", "words=long")).slice(-8) }),
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
    return { says: "the disk is full: new tasks are refused, and accepted ones wait" };
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
