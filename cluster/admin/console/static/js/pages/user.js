/** One user: password, tags, permissions, limits. */

import { limitsText, permissionTable, setLimits, setPermissions } from "../access.js";
import { at, del, get, put } from "../api.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { morph } from "../morph.js";
import { facts } from "../table.js";
import { TAGS_HINT } from "./users.js";

const LIMITS = ["max-connections", "max-channels"];

export function user(context) {
  const { name } = context.names;
  const told = h("div", {});
  const permissions = h("section", {});
  const view = { user: { tags: [], limits: {} } };
  return {
    actions: actionsOf(name, view, context),
    element: h("div", {}, told, permissions),
    async load(signal) {
      const [row, rows] = await Promise.all([
        get(at`/users/${name}`, {}, { signal }),
        get(at`/users/${name}/permissions`, {}, { signal }),
      ]);
      return { row, rows };
    },
    show({ row, rows }) {
      view.user = row;
      const pairs = [
        ["Tags", row.tags.join(", ") || "none"],
        ["Password", row.password_hash ? `set (${row.hashing_algorithm})` : "none: by certificate only"],
        ["Limits", limitsText(row.limits)],
      ];
      morph(told, h("div", {}, facts(pairs)));
      const table = permissionTable(rows, "user", context.refresh);
      morph(permissions, h("section", {}, h("h2", {}, "Permissions"), table));
    },
  };
}

function actionsOf(name, view, context) {
  const then = (done) => done && context.refresh();
  const action = (label, run, kind) => h("button", { type: "button", class: kind, onClick: run }, label);
  return [
    action("Set permissions", () => setPermissions({ user: name }).then(then), "primary"),
    action("Password and tags", () => change(name, view.user).then(then)),
    action("Limits", () => setLimits("user-limits", name, LIMITS, view.user.limits).then(then)),
    action("Delete", () => remove(name)),
  ];
}

function change(name, { tags, password_hash: hash, hashing_algorithm: algorithm }) {
  return ask({
    title: `Password and tags of ${name}`,
    confirm: "Change",
    fields: [
      {
        name: "password",
        label: "New password",
        kind: "password",
        autocomplete: "new-password",
        hint: "Empty: the password stays.",
      },
      { name: "tags", label: "Tags", value: tags.join(","), hint: TAGS_HINT },
    ],
    run: (values) => {
      const kept = { password_hash: hash, hashing_algorithm: algorithm };
      const secret = values.password ? { password: values.password } : kept;
      return put(at`/users/${name}`, { ...secret, tags: values.tags });
    },
    done: "The user is changed",
  });
}

async function remove(name) {
  const done = await ask({
    title: `Delete ${name}`,
    text: "The user goes with all permissions, and the user's connections are closed.",
    confirm: "Delete",
    danger: true,
    run: () => del(at`/users/${name}`),
    done: "The user is deleted",
  });
  if (done) {
    location.hash = "#/users";
  }
}
