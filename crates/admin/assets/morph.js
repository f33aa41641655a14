// Makes a tree as another one is drawn, and leaves alone what is the same in both: that keeps its focus, its scrolling, and whether it is open.

/** What makes a child the same one in both trees; null if only its place does. */
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return null;
  const name = () => {
    if (node.id) return node.id;
    if (node.dataset.key) return node.dataset.key;
    if (node.tagName === "DT") return node.textContent;
    if (node.tagName === "DD") return node.previousElementSibling?.textContent;
    // What sends or leads somewhere else is something else, also under the same words.
    return node.getAttribute("action") ?? node.getAttribute("href");
  };
  const named = name();
  return named ? `${node.tagName} ${named}` : null;
}

/**
 * Makes `old` as `drawn`. `rules.keeps(old, drawn)` says whether an element stays as it is, and `rules.drops(old)` whether one that is not drawn any more is removed.
 */
export function morph(old, drawn, rules) {
  if (old.isEqualNode(drawn)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    // A selection in a text that only grows stays.
    if (drawn.data.startsWith(old.data)) old.appendData(drawn.data.slice(old.data.length));
    else old.data = drawn.data;
    return;
  }
  if (rules.keeps(old, drawn)) return;
  for (const { name } of [...old.attributes]) {
    // Whoever looks at it opens and closes it.
    if (!drawn.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of drawn.attributes) {
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
  morphChildren(old, drawn, rules);
  // Fields show what is sent now.
  if (old.tagName === "FORM") old.reset();
}

function morphChildren(old, drawn, rules) {
  const wanted = [...drawn.childNodes];
  const wantedKeys = new Set(wanted.map(keyOf).filter((key) => key !== null));
  const byKey = new Map();
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key !== null && !byKey.has(key)) byKey.set(key, child);
  }
  let at = old.firstChild;
  const dropTo = (end) => {
    while (at !== end) {
      const child = at;
      at = at.nextSibling;
      if (rules.drops(child)) child.remove();
    }
  };
  for (const child of wanted) {
    const key = keyOf(child);
    const isAlike = (other) => keyOf(other) === key && other.nodeName === child.nodeName;
    // The next one that is alike or has a place of its own.
    let match = at;
    while (match && !isAlike(match) && !wantedKeys.has(keyOf(match))) match = match.nextSibling;
    if (match && isAlike(match)) dropTo(match);
    else match = byKey.get(key);
    byKey.delete(key);
    if (!match) {
      old.insertBefore(document.importNode(child, true), at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    morph(match, child, rules);
  }
  dropTo(null);
}
