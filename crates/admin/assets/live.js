// Draws the page anew when something has changed. Without it the page is as it was when it was loaded.
import { HeldForms, hasFilledForm, hasHeldForm } from "./held_forms.js";
import { morph } from "./morph.js";
import { beforeDrawing, guardPresses } from "./pointed_button.js";
import { showLocalTimes } from "./local_times.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
/** Time for the click that follows a release, in milliseconds. */
const AFTER_RELEASE = 100;
/** How long nothing is drawn after a form was sent, in milliseconds: its answer takes the place of the page. */
const LONGEST_ANSWER = 30_000;
/** Keys that press or scroll. */
const PRESSING = new Set([" ", "Enter", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"]);
let events;
let isDrawing = false;
let isStale = false;
let holdsForms = false;
/** What is held down: a pointer, a key or nothing. */
let pressed = null;
/** Whether a form has been sent, so that another page comes. */
let isLeaving = false;

/** Where the page is drawn anew from; undefined for one that stays as it is: a result, an error, the login. */
const source = () => (main.dataset.source === "" ? location.href : main.dataset.source);
const isLive = () => source() !== undefined && !document.hidden;
const isBusy = () => !isLive() || pressed !== null || isLeaving;
const isSelecting = () => String(window.getSelection()) !== "";

const say = (text) => {
  if (live.textContent !== text) live.textContent = text;
};

/** Shows what was drawn. What is the same stays as it is, and so do forms in which somebody is doing something. */
function show(drawn) {
  const focused = document.activeElement;
  const log = main.querySelector(".log");
  const follows = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const forms = new HeldForms();
  const drawnNow = beforeDrawing(main);
  showLocalTimes(drawn);
  morph(main, drawn, forms);
  forms.show(main, source() ?? "/");
  drawnNow();
  holdsForms = !forms.isEmpty;
  if (follows) followLog();
  // It was moved.
  if (focused !== document.activeElement && main.contains(focused)) focused.focus({ preventScroll: true });
}

function followLog() {
  const log = main.querySelector(".log");
  if (log) log.scrollTop = log.scrollHeight;
}

async function draw() {
  isStale = true;
  if (isDrawing || isBusy()) return;
  if (isSelecting()) {
    say("changed; shown when nothing is selected");
    return;
  }
  isDrawing = true;
  isStale = false;
  try {
    const answer = await fetch(source(), { headers: { accept: "text/html" } });
    if (answer.redirected && !hasFilledForm(main)) {
      location.assign(answer.url);
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const drawn = page.getElementById("main");
    const isBack = answer.ok && !answer.redirected;
    // What is wrong for now takes no form away.
    const waits = !isBack && drawn?.dataset.source !== undefined && hasHeldForm(main);
    if (!drawn || answer.redirected || waits || isBusy() || isSelecting()) {
      isStale = true;
      if (answer.redirected) say("logged out; what you have entered is still here");
      else if (!isBack) say("not answered; trying again");
      return;
    }
    // Its own address is where it came from, which may not be that of this page.
    if (drawn.dataset.source === "") drawn.dataset.source = main.dataset.source;
    show(drawn);
    document.title = page.title;
    if (source() === undefined) events?.close();
    say(isBack ? "live" : source() === undefined ? "" : "not answered; trying again");
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
  if (!isLive()) return;
  events = new EventSource("/api/events");
  // The first one says what is so now: also what has changed before, or while the connection was lost.
  events.addEventListener("change", (change) => (change.data === main.dataset.version ? say("live") : draw()));
  events.addEventListener("error", () => isLive() && say("not connected; trying again"));
}

// While the store does not answer nothing changes, so no event says so.
let isReady = true;
async function askWhetherReady() {
  if (!isLive()) return;
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
const drawIfHeld = () => (isStale || holdsForms) && draw();

// Nothing changes between a press and what it does.
let released;
const press = (what) => {
  clearTimeout(released);
  pressed = what;
};
const release = () => {
  clearTimeout(released);
  released = setTimeout(() => {
    pressed = null;
    drawIfStale();
  }, AFTER_RELEASE);
};
addEventListener("pointerdown", () => press("pointer"), true);
addEventListener("keydown", (key) => PRESSING.has(key.key) && press("key"), true);
// Over a menu of the browser the release is not seen here.
addEventListener("pointermove", (moved) => pressed === "pointer" && moved.buttons === 0 && release(), true);
for (const event of ["pointerup", "pointercancel", "keyup"]) addEventListener(event, release, true);
// Of the window, not of an element.
addEventListener("blur", release);

guardPresses(() => say("changed here just now: look, and press again"));

/** The form that may be sent: its server answers, and knows who sends it. */
let checked = null;
async function sendIfKnown(form, submitter) {
  isLeaving = true;
  try {
    const answer = await fetch("/api/stats");
    if (answer.status !== 401) {
      checked = form;
      form.requestSubmit(submitter);
      return;
    }
    say("logged out, and nothing was sent. What you have entered is still here: log in in another tab, and send it again");
  } catch {
    say("not connected, and nothing was sent; what you have entered is still here");
  }
  isLeaving = false;
}
addEventListener("submit", (submission) => {
  const form = submission.target;
  if (submission.defaultPrevented) return;
  if (form.method === "post" && source() !== undefined && checked !== form) {
    submission.preventDefault();
    sendIfKnown(form, submission.submitter);
    return;
  }
  checked = null;
  isLeaving = true;
  setTimeout(() => (isLeaving = false), LONGEST_ANSWER);
});

document.addEventListener("visibilitychange", listen);
document.addEventListener("focusout", () => setTimeout(drawIfHeld, AFTER_RELEASE));
document.addEventListener("selectionchange", () => setTimeout(drawIfStale, AFTER_RELEASE));
setInterval(drawIfStale, 5_000);
setInterval(askWhetherReady, 10_000);
// A log and the state of an upstream change without an event.
setInterval(() => main.querySelector("[data-redraw]") && draw(), 2_000);
showLocalTimes(main);
followLog();
listen();
