/** All users. */

import { at, put } from "../api.js";
import { limitsText } from "../access.js";
import { badge } from "../badges.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { Listing } from "../listing.js";
import { to } from "../routing.js";

const COLUMNS = [
  { label: "Name", sort: "name", cell: ({ name }) => h("a", { href: to("users", name) }, name) },
  {
    label: "Tags",
    sort: "tags",
    cell: ({ tags }) =>
      h(
        "span",
        { class: "badges" },
        tags.map((tag) => badge(tag)),
      ),
  },
  { label: "Password", cell: (user) => (user.password_hash ? "set" : "none: by certificate only") },
  { label: "Limits", cell: ({ limits }) => limitsText(limits) },
];

export const TAGS_HINT = "With commas between: administrator, monitoring, policymaker, management.";

export function users(context) {
  const listing = new Listing(context, {
    path: () => "/users",
    caption: "Users",
    columns: COLUMNS,
    key: ({ name }) => name,
    paged: false,
  });
  const add = () => addUser().then((done) => done && context.refresh());
  return {
    actions: [h("button", { type: "button", class: "primary", onClick: add }, "Add a user")],
    element: listing.element,
    load: (signal) => listing.load(signal),
    show: (data) => listing.show(data),
  };
}

function addUser() {
  return ask({
    title: "Add a user",
    confirm: "Add",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "password", label: "Password", kind: "password", autocomplete: "new-password", required: true },
      { name: "tags", label: "Tags", value: "", hint: TAGS_HINT },
    ],
    run: ({ name, password, tags }) => put(at`/users/${name}`, { password, tags }),
    done: "The user is added",
  });
}
