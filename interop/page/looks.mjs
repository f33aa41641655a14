// How the pages look: with the keyboard, in both themes, on a narrow screen.
import { join } from "node:path";
import { durableAdmin, equal, open, screenshots, start, step } from "./support.mjs";

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

await step("what is wrong fits a narrow screen, and what is pressed there is large enough", async () => {
  // Blocked since night.mjs.
  const page = await open("/", { width: 360, at: durableAdmin });
  await page.waitForFunction(() => /[0-9a-z]{36} is blocked/.test(document.querySelector(".problem")?.textContent), { timeout: 20_000 });
  equal((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360, true, "its width");
  await page.click("#filter summary");
  const heights = await page.$$eval("#filter a, #filter button", (targets) => targets.map((target) => target.getBoundingClientRect().height));
  equal(heights.filter((height) => height < 24), [], "heights");
  await page.close();
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
