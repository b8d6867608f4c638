/** One virtual host: what is said of it, its permissions and limits. */

import { limitsText, permissionTable, setLimits, setPermissions } from "../access.js";
import { at, del, get } from "../api.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { count, octets } from "../format.js";
import { morph } from "../morph.js";
import { administers } from "../rights.js";
import { facts } from "../table.js";
import { putVhost } from "./vhosts.js";

const LIMITS = ["max-connections", "max-queues"];

export function vhost(context) {
  const { name } = context.names;
  const told = h("div", {});
  const permissions = h("section", {});
  const view = { vhost: {}, limits: {} };
  return {
    actions: administers() ? actionsOf(name, view, context) : [],
    element: h("div", {}, told, permissions),
    async load(signal) {
      const [row, rows, limits] = await Promise.all([
        get(at`/vhosts/${name}`, {}, { signal }),
        administers() ? get(at`/vhosts/${name}/permissions`, {}, { signal }) : null,
        administers() ? get(at`/vhost-limits/${name}`, {}, { signal }) : [],
      ]);
      return { row, rows, limits: limits[0]?.value ?? {} };
    },
    show({ row, rows, limits }) {
      Object.assign(view, { vhost: row, limits });
      morph(told, h("div", {}, factsOf(row, limits)));
      const table = rows && [h("h2", {}, "Permissions"), permissionTable(rows, "vhost", context.refresh)];
      morph(permissions, h("section", {}, table));
    },
  };
}

function factsOf(row, limits) {
  return facts([
    ["Description", row.description || "none"],
    ["Default queue type", row.default_queue_type === "undefined" ? "as configured" : row.default_queue_type],
    ["Ready", count(row.messages_ready)],
    ["Unacknowledged", count(row.messages_unacknowledged)],
    ["From clients", octets(row.recv_oct)],
    ["To clients", octets(row.send_oct)],
    administers() && ["Limits", limitsText(limits)],
    ["Queues", h("a", { href: `#/queues?vhost=${encodeURIComponent(row.name)}` }, "Show its queues")],
  ]);
}

function actionsOf(name, view, context) {
  const then = (done) => done && context.refresh();
  const action = (label, run, kind) => h("button", { type: "button", class: kind, onClick: run }, label);
  const known = () => {
    const type = view.vhost.default_queue_type;
    return { ...view.vhost, name, default_queue_type: type === "undefined" ? "" : type };
  };
  return [
    action("Set permissions", () => setPermissions({ vhost: name }).then(then), "primary"),
    action("Change", () => putVhost(known()).then(then)),
    action("Limits", () => setLimits("vhost-limits", name, LIMITS, view.limits).then(then)),
    action("Delete", () => remove(name)),
  ];
}

async function remove(name) {
  const done = await ask({
    title: `Delete ${name}`,
    text: "The virtual host goes with all its queues, messages and exchanges. Its connections are closed.",
    confirm: "Delete",
    danger: true,
    fields: [{ name: "typed", label: `To confirm, type its name: ${name}` }],
    run: ({ typed }) => {
      if (typed !== name) {
        throw new Error("That is not its name.");
      }
      return del(at`/vhosts/${name}`);
    },
    done: "The virtual host is deleted",
  });
  if (done) {
    location.hash = "#/vhosts";
  }
}
