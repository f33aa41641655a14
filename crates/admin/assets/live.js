// Draws the page anew when something has changed. Without it the page is as it was when it was loaded.
"use strict";
const main = document.getElementById("main");
const live = document.getElementById("live");
const isBusy = () => {
  const focused = document.activeElement;
  const typing = focused && main.contains(focused) && ["INPUT", "SELECT", "TEXTAREA"].includes(focused.tagName);
  return typing || String(window.getSelection()) !== "" || document.hidden;
};
const openDetails = () => new Set([...main.querySelectorAll("details[open][id]")].map((details) => details.id));
let isDrawing = false;
let isStale = false;
async function draw() {
  if (isDrawing || isBusy()) {
    isStale = true;
    return;
  }
  isDrawing = true;
  isStale = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.redirected) {
      location.assign(answer.url);
      return;
    }
    const drawn = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (drawn && !isBusy()) {
      const [open, focused, scrolled] = [openDetails(), document.activeElement, main.querySelector(".log")];
      const [href, top] = [main.contains(focused) ? focused.getAttribute("href") : null, scrolled ? scrolled.scrollTop : 0];
      const follows = scrolled && scrolled.scrollTop + scrolled.clientHeight >= scrolled.scrollHeight - 4;
      main.replaceChildren(...drawn.childNodes);
      main.dataset.version = drawn.dataset.version;
      main.querySelectorAll("details[id]").forEach((details) => (details.open = open.has(details.id)));
      const log = main.querySelector(".log");
      if (log) log.scrollTop = follows ? log.scrollHeight : top;
      if (href) main.querySelector(`[href="${CSS.escape(href)}"]`)?.focus({ preventScroll: true });
    }
  } finally {
    isDrawing = false;
  }
}
const log = main.querySelector(".log");
if (log) log.scrollTop = log.scrollHeight;
const events = new EventSource("/api/events");
// Also what has changed between drawing the page and listening, or while the connection was lost.
events.addEventListener("change", (change) => change.data !== main.dataset.version && draw());
events.addEventListener("open", () => (live.textContent = "live"));
events.addEventListener("error", () => (live.textContent = "not connected; trying again"));
["focusout", "visibilitychange"].forEach((name) => document.addEventListener(name, () => isStale && setTimeout(draw, 50)));
