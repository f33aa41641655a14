// A button that the latest drawing has put under the pointer is not pressed for a moment: whoever presses then means what was there before.

/** How long people look before they press, in milliseconds. */
const LOOK = 700;
/** How far a mouse that rests may move, in pixels. */
const REST = 4;
const BUTTON = "form[method=post] button";

/** What a press of the button sends. Two buttons with the same words may send different things. */
function effect(button) {
  const sent = [...button.form.elements].filter((field) => field.type === "hidden").map((field) => `${field.name}=${field.value}`);
  return [button.form.getAttribute("action"), button.name, button.value, button.textContent.trim(), ...sent].join("\n");
}

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** The buttons that can be seen, with their places. */
function seen(main) {
  const buttons = [...main.querySelectorAll(BUTTON)].map((button) => ({ button, effect: effect(button), place: button.getBoundingClientRect() }));
  return buttons.filter(({ place }) => place.width > 0);
}

/** The buttons that the latest drawing has put where they were not before, and when that was. */
let fresh = new Set();
let drawnAt = -Infinity;
/** Where the mouse is, where it was then, and whether it has moved since. */
let mouse = null;
let mouseThen = null;
let hasMoved = false;
let isStopped = false;

/** Call it before a drawing, and what it returns after it. */
export function beforeDrawing(main) {
  const before = seen(main);
  return () => {
    const isNew = (now) => !before.some((was) => was.effect === now.effect && overlap(was.place, now.place));
    fresh = new Set(seen(main).filter(isNew).map(({ button }) => button));
    drawnAt = performance.now();
    mouseThen = mouse;
    hasMoved = false;
  };
}

function follow({ clientX: x, clientY: y }) {
  mouse = { x, y };
  hasMoved ||= mouseThen !== null && Math.hypot(x - mouseThen.x, y - mouseThen.y) > REST;
}

function isUnseen({ target, pointerType }) {
  const button = target.closest?.(BUTTON);
  if (!button || !fresh.has(button) || performance.now() - drawnAt > LOOK) return false;
  // Whoever moves the mouse to it has seen it.
  return pointerType !== "mouse" || (mouseThen !== null && !hasMoved);
}

/** `stopped` is called when a press is not carried out. */
export function guardPresses(stopped) {
  addEventListener("pointermove", follow, { capture: true, passive: true });
  addEventListener("pointerdown", (press) => (isStopped = isUnseen(press)), true);
  addEventListener(
    "click",
    (click) => {
      // One without a pointer is of the keyboard, whose button has the focus.
      if (!isStopped || click.detail === 0) return;
      isStopped = false;
      click.preventDefault();
      click.stopPropagation();
      stopped();
    },
    true,
  );
}
