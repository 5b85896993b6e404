"use strict";
const field = document.querySelector("search input");
const told = document.querySelector("search output");
const parts = [...document.querySelectorAll("main > *")].map((part) => [part, part.textContent.toLowerCase()]);
const opened = new Set();

function mark(words) {
  if (!window.Highlight) return;
  CSS.highlights.delete("found");
  if (!words) return;
  const ranges = [];
  for (const [part] of parts.filter(([part]) => !part.hidden)) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && ranges.length < 2000) {
      const text = walker.currentNode.data.toLowerCase();
      for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, Math.min(at + words.length, walker.currentNode.length));
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

function search() {
  const words = field.value.trim().toLowerCase();
  for (const fold of opened) fold.open = false;
  opened.clear();
  let found = 0;
  for (const [part, text] of parts) {
    part.hidden = Boolean(words) && !text.includes(words);
    if (part.hidden || !words) continue;
    found += 1;
    for (const fold of part.querySelectorAll("details:not([open])")) {
      if (!fold.textContent.toLowerCase().includes(words)) continue;
      fold.open = true;
      opened.add(fold);
    }
  }
  told.textContent = words ? (found ? found + " of " + parts.length + " entries" : "Nothing found") : "";
  mark(words);
}

function clear() {
  field.value = "";
  search();
}

document.querySelector("search").hidden = false;
field.addEventListener("input", search);
field.addEventListener("keydown", (event) => { if (event.key === "Escape") clear(); });
// Whoever goes to a turn wants to see it, whatever was searched for.
document.querySelector("nav")?.addEventListener("click", (event) => { if (event.target.closest("a")) clear(); });
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const fold of closed) fold.open = true;
});
addEventListener("afterprint", () => { for (const fold of closed) fold.open = false; });
