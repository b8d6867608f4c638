/** Permissions of users in virtual hosts, and limits. */

import { at, del, get, put } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { to } from "./routing.js";
import { table } from "./table.js";

const EXPRESSION = "A regular expression of names: .* for all, nothing for none.";

/** A table of permissions; `known` is "user" or "vhost", the end that needs no column. */
export function permissionTable(rows, known, refresh) {
  const link = (kind, name) => h("a", { href: to(kind, name) }, name);
  const columns = [
    known === "user"
      ? { label: "Virtual host", cell: ({ vhost }) => link("vhosts", vhost) }
      : { label: "User", cell: ({ user }) => link("users", user) },
    ...["configure", "write", "read"].map((right) => ({
      label: right[0].toUpperCase() + right.slice(1),
      cell: (row) => h("code", {}, row[right]),
    })),
    ...[
      ["read_filter", "Read filter"],
      ["write_filter", "Write filter"],
    ]
      .filter(([name]) => rows.some((row) => row[name]))
      .map(([name, label]) => ({ label, cell: (row) => h("code", {}, row[name] ?? "") })),
    { label: "Remove", unseen: true, cell: (row) => removal(row, refresh) },
  ];
  const key = ({ user, vhost }) => JSON.stringify([user, vhost]);
  const empty =
    known === "user" ? "This user may enter no virtual host." : "Nobody may enter this virtual host.";
  return table({ caption: "Permissions", columns, rows, key, empty });
}

function removal({ user, vhost }, refresh) {
  const clear = async () => {
    const done = await ask({
      title: "Take the permissions",
      text: `${user} may no longer enter ${vhost}.`,
      confirm: "Take",
      danger: true,
      run: () => del(at`/permissions/${vhost}/${user}`),
      done: "The permissions are taken",
    });
    if (done) {
      refresh();
    }
  };
  const label = `Take the permissions of ${user} in ${vhost}`;
  return h("button", { type: "button", "aria-label": label, onClick: clear }, "Take");
}

/** Ask for the permissions of a user in a virtual host; one of the two is known. */
export async function setPermissions({ user, vhost }) {
  const [field, options] = user
    ? ["vhost", await get("/vhosts", { columns: "name" })]
    : ["user", await get("/users", { columns: "name" })];
  const names = options.map(({ name }) => name);
  const label = field === "user" ? "User" : "Virtual host";
  return ask({
    title: user ? `Permissions of ${user}` : `Permissions in ${vhost}`,
    confirm: "Set",
    fields: [
      { name: field, label, kind: "select", options: names },
      { name: "configure", label: "Configure: declare and delete", value: ".*", hint: EXPRESSION },
      { name: "write", label: "Write: publish and bind", value: ".*" },
      { name: "read", label: "Read: consume, get and purge", value: ".*" },
    ],
    run: (values) => {
      const { configure, write, read } = values;
      const place = { user, vhost, ...values };
      return put(at`/permissions/${place.vhost}/${place.user}`, { configure, write, read });
    },
    done: "The permissions are set",
  });
}

/** Ask for limits and set them: `kind` is "vhost-limits" or "user-limits", `names` what can be limited. */
export function setLimits(kind, name, names, now) {
  return ask({
    title: `Limits of ${name}`,
    text: "An empty field is no limit.",
    confirm: "Set",
    fields: names.map((limit) => ({
      name: limit,
      label: limit,
      kind: "number",
      min: 0,
      value: now[limit] ?? "",
    })),
    run: async (values) => {
      for (const [limit, value] of Object.entries(values)) {
        const path = `/${kind}${at`/${name}/${limit}`}`;
        await (value === null ? del(path) : put(path, { value }));
      }
    },
    done: "The limits are set",
  });
}

/** Limits in words. */
export function limitsText(limits) {
  const all = Object.entries(limits).map(([name, value]) => `${name} ${value}`);
  return all.length ? all.join(", ") : "none";
}
