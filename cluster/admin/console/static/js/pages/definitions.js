/** Definitions: everything that is declared, out into a file and in from one. */

import { announce } from "../announce.js";
import { at, call, get } from "../api.js";
import { h } from "../dom.js";
import { Form } from "../form.js";
import { counted } from "../format.js";
import { vhostNames } from "../vhosts.js";

const KINDS = ["users", "vhosts", "permissions", "exchanges", "queues", "bindings"];

export function definitions() {
  const out = h("section", { class: "card" });
  const into = h("section", { class: "card" });
  return {
    element: h("div", { class: "columns" }, out, into),
    async load() {
      return out.hasChildNodes() ? null : vhostNames();
    },
    /** Once: what the user has filled in stays. */
    show(names) {
      if (names !== null) {
        out.replaceChildren(exportPanel(names));
        into.replaceChildren(importPanel(names));
      }
    },
  };
}

const whole = (names) => [["", "The whole cluster"], ...names.map((name) => [name, `Virtual host ${name}`])];
const pathOf = (vhost) => (vhost === "" ? "/definitions" : at`/definitions/${vhost}`);

function panel({ title, text, form, button, run }) {
  const told = h("p", { role: "status" });
  const error = h("p", { class: "error", role: "alert" });
  const submit = h("button", { type: "submit", class: "primary" }, button);
  const work = async (event) => {
    event.preventDefault();
    error.textContent = "";
    told.textContent = "";
    submit.disabled = true;
    try {
      told.textContent = await run(form.values());
    } catch (failure) {
      error.textContent = failure.message;
    } finally {
      submit.disabled = false;
    }
  };
  const body = h("form", { class: "stack", onSubmit: work });
  body.append(h("h2", {}, title), h("p", { class: "note" }, text), form.element, told, error, submit);
  return body;
}

function exportPanel(names) {
  const form = new Form([{ name: "vhost", label: "Of", kind: "select", options: whole(names) }]);
  const text =
    "Users with the hashes of their passwords, permissions, exchanges, queues, bindings. No messages.";
  return panel({ title: "Export", text, form, button: "Save as a file", run: save });
}

async function save({ vhost }) {
  const all = await get(pathOf(vhost));
  const file = new Blob([JSON.stringify(all, null, 2)], { type: "application/json" });
  const link = h("a", { href: URL.createObjectURL(file), download: "definitions.json" });
  link.click();
  URL.revokeObjectURL(link.href);
  return `Saved: ${KINDS.filter((kind) => all[kind])
    .map((kind) => contents(all, kind))
    .join(", ")}.`;
}

function contents(all, kind) {
  return counted(all[kind].length, kind.slice(0, -1), kind);
}

function importPanel(names) {
  const form = new Form([
    { name: "file", label: "File", kind: "file", required: true },
    { name: "vhost", label: "Into", kind: "select", options: whole(names) },
  ]);
  const text = "What is there already stays. Nothing is deleted. A file of RabbitMQ's will do.";
  const run = async ({ vhost }) => imported(vhost, await form.control("file").files[0].text());
  return panel({ title: "Import", text, form, button: "Import", run });
}

async function imported(vhost, text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is no JSON: ${error.message}`);
  }
  const answer = await call("POST", pathOf(vhost), { body });
  announce("The definitions are imported");
  const left = answer?.left_out ?? [];
  const which = left.map(({ what, name }) => `${what} ${name}`).join(", ");
  return left.length ? `Imported, without what is not supported: ${which}.` : "Everything is imported.";
}
