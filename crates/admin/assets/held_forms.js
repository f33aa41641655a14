// Forms in which somebody is doing something. They stay as they are when the page is drawn anew, and say what has become of them.

const CHANGED = "This form has changed on the server since.";
const GONE = "This is not offered any more, and cannot be sent.";

/** Whether a field has another value than the server has sent. */
function isChanged(field) {
  if (field.tagName === "SELECT") {
    const options = [...field.options];
    const sent = options.filter((option) => option.defaultSelected);
    // If none is named the first one is chosen.
    const chosen = sent.length > 0 || field.multiple ? sent : options.slice(0, 1);
    return options.some((option) => option.selected !== chosen.includes(option));
  }
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  return field.defaultValue !== undefined && field.value !== field.defaultValue;
}

/** Whether it has values that the server does not have: typed, or sent and refused. */
const isFilled = (form) => form.hasAttribute("data-entered") || [...form.elements].some(isChanged);
const isHeld = (form) => form.contains(document.activeElement) || isFilled(form);
const formsIn = (node) => (node.nodeType === Node.ELEMENT_NODE ? [...(node.tagName === "FORM" ? [node] : []), ...node.querySelectorAll("form")] : []);

export const hasFilledForm = (main) => formsIn(main).some(isFilled);
export const hasHeldForm = (main) => formsIn(main).some(isHeld);

/** The rules by which a page is drawn around forms that are held. They note what has become of these forms. */
export class HeldForms {
  #notices = new Map();

  keeps(old, drawn) {
    if (old.tagName !== "FORM" || !isHeld(old)) return false;
    // The same form, drawn without what was entered, is no news.
    if (!old.hasAttribute("data-entered")) this.#notices.set(old, CHANGED);
    return true;
  }

  drops(old) {
    if (old.dataset?.key === "notice") return false;
    const held = formsIn(old).filter(isHeld);
    for (const form of held) this.#notices.set(form, GONE);
    return held.length === 0;
  }

  get isEmpty() {
    return this.#notices.size === 0;
  }

  /** Says above each of them what has become of it. `address` is the page without what was entered. */
  show(main, address) {
    for (const notice of main.querySelectorAll("[data-key=notice]")) {
      const form = notice.nextElementSibling;
      if (this.#notices.get(form) === notice.firstChild.data) this.#notices.delete(form);
      else notice.remove();
    }
    for (const [form, text] of this.#notices) {
      const notice = document.createElement("p");
      notice.className = "error";
      notice.dataset.key = "notice";
      notice.setAttribute("role", "alert");
      const link = document.createElement("a");
      link.href = address;
      link.textContent = "Discard what was entered";
      notice.append(text, ...(isFilled(form) ? [" ", link] : []));
      form.toggleAttribute("data-gone", text === GONE);
      form.before(notice);
    }
  }
}

// What cannot be sent any more is not sent.
document.addEventListener("submit", (submission) => {
  if (submission.target.hasAttribute("data-gone")) submission.preventDefault();
});
