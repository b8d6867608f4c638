/** Short words with a colour; the word alone says it all. */

import { h } from "./dom.js";

export function badge(text, kind = "plain") {
  return h("span", { class: `badge ${kind}` }, text);
}

/** The state of a queue, a connection or a node. */
export function state(text) {
  const kinds = { running: "good", down: "bad", blocked: "warning", flow: "warning", closing: "warning" };
  return badge(text, kinds[text] ?? "plain");
}

/** What a queue was declared with, in short. */
export function features(queue) {
  const known = [
    queue.durable && ["D", "durable"],
    queue.auto_delete && ["AD", "deleted with its last consumer"],
    queue.exclusive && ["Excl", "exclusive to one connection"],
    queue.internal && ["I", "internal: only other exchanges publish to it"],
    Object.keys(queue.arguments ?? {}).length > 0 && ["Args", JSON.stringify(queue.arguments)],
  ].filter(Boolean);
  return h(
    "span",
    { class: "features" },
    known.map(([text, title]) => h("abbr", { title }, text)),
  );
}
