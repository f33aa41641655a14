// Draws the page anew when something has changed. Without it the page is as it was when it was loaded.
"use strict";
const main = document.getElementById("main");
const live = document.getElementById("live");
let events;
let isDrawing = false;
let isStale = false;

/** Whether drawing now would take something away that the user is doing. */
const isBusy = () => {
  const focused = document.activeElement;
  const isTyping = main.contains(focused) && ["INPUT", "SELECT", "TEXTAREA"].includes(focused.tagName);
  return isTyping || String(window.getSelection()) !== "" || document.hidden;
};

/** How the focused element is found in the page that is drawn anew. */
const place = (focused) => {
  if (!main.contains(focused)) return null;
  if (focused.hasAttribute("href")) return `[href="${CSS.escape(focused.getAttribute("href"))}"]`;
  if (focused.tagName === "SUMMARY") return `#${CSS.escape(focused.parentElement.id)} > summary`;
  const form = focused.closest("form");
  if (!form) return null;
  const value = focused.getAttribute("value");
  return `form[action="${CSS.escape(form.getAttribute("action"))}"] ${focused.tagName}${value ? `[value="${CSS.escape(value)}"]` : ""}`;
};

const say = (text) => {
  if (live.textContent !== text) live.textContent = text;
};

async function draw() {
  isStale = true;
  if (isDrawing) return;
  if (isBusy()) {
    if (!document.hidden) say("changed; shown when you are done");
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
    if (!drawn || isBusy()) {
      isStale = true;
      return;
    }
    const open = new Set([...main.querySelectorAll("details[open][id]")].map((details) => details.id));
    const focused = place(document.activeElement);
    const log = main.querySelector(".log");
    const top = log ? log.scrollTop : 0;
    const follows = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    main.replaceChildren(...drawn.childNodes);
    main.dataset.version = drawn.dataset.version;
    main.querySelectorAll("details[id]").forEach((details) => (details.open = open.has(details.id)));
    const newLog = main.querySelector(".log");
    if (newLog) newLog.scrollTop = follows ? newLog.scrollHeight : top;
    if (focused) main.querySelector(focused)?.focus({ preventScroll: true });
    say(answer.ok ? "live" : "not answered; trying again");
  } catch {
    isStale = true;
    say("not connected; trying again");
  } finally {
    isDrawing = false;
  }
}

/** A hidden page listens to nothing: a browser has few connections for each server. */
function listen() {
  events?.close();
  if (document.hidden) return;
  events = new EventSource("/api/events");
  // The first one says what is so now: also what has changed before, or while the connection was lost.
  events.addEventListener("change", (change) => (change.data === main.dataset.version ? say("live") : draw()));
  events.addEventListener("error", () => say("not connected; trying again"));
}

// While the store does not answer nothing changes, so no event says so.
let isReady = true;
async function askWhetherReady() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/readyz");
    if (!answer.ok) {
      isReady = false;
      say(`not ready: ${(await answer.text()).trim()}`);
    } else if (!isReady) {
      isReady = true;
      draw();
    }
  } catch {
    say("not connected; trying again");
  }
}

const drawIfStale = () => isStale && draw();
document.addEventListener("visibilitychange", listen);
document.addEventListener("focusout", () => setTimeout(drawIfStale, 50));
document.addEventListener("selectionchange", () => setTimeout(drawIfStale, 50));
setInterval(drawIfStale, 5_000);
setInterval(askWhetherReady, 10_000);
// A log and the state of an upstream change without an event.
setInterval(() => main.querySelector("[data-redraw]") && !document.hidden && draw(), 2_000);
const log = main.querySelector(".log");
if (log) log.scrollTop = log.scrollHeight;
listen();
