/** All virtual hosts. */

import { at, put } from "../api.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { count, rate, rateOf } from "../format.js";
import { Listing } from "../listing.js";
import { administers } from "../rights.js";
import { to } from "../routing.js";

const COLUMNS = [
  { label: "Name", sort: "name", cell: ({ name }) => h("a", { href: to("vhosts", name) }, name) },
  { label: "Description", sort: "description", cell: ({ description }) => description },
  {
    label: "Default queue type",
    cell: (row) => (row.default_queue_type === "undefined" ? "" : row.default_queue_type),
  },
  { label: "Ready", sort: "messages_ready", numeric: true, cell: (row) => count(row.messages_ready) },
  {
    label: "Unacked",
    sort: "messages_unacknowledged",
    numeric: true,
    cell: (row) => count(row.messages_unacknowledged),
  },
  { label: "In", numeric: true, cell: (row) => rate(rateOf(row.message_stats, "publish")) },
  { label: "Out", numeric: true, cell: (row) => rate(rateOf(row.message_stats, "deliver_get")) },
];

export function vhosts(context) {
  const listing = new Listing(context, {
    path: () => "/vhosts",
    caption: "Virtual hosts",
    columns: COLUMNS,
    key: ({ name }) => name,
    paged: true,
    empty: "You may enter no virtual host.",
  });
  const add = () => putVhost({}).then((done) => done && context.refresh());
  const button = h("button", { type: "button", class: "primary", onClick: add }, "Add a virtual host");
  return {
    actions: administers() ? [button] : [],
    element: listing.element,
    load: (signal) => listing.load(signal),
    show: (data) => listing.show(data),
  };
}

/** Ask for a virtual host, or for what is said of one that is known. */
export function putVhost({ name, description = "", default_queue_type: type = "" }) {
  return ask({
    title: name === undefined ? "Add a virtual host" : `Change ${name}`,
    confirm: name === undefined ? "Add" : "Change",
    fields: [
      name === undefined && { name: "name", label: "Name", required: true },
      { name: "description", label: "Description", value: description },
      {
        name: "type",
        label: "Default queue type",
        kind: "select",
        value: type,
        options: [["", "As the cluster is configured"], "quorum", "classic"],
      },
    ],
    run: (values) => {
      const body = { description: values.description, default_queue_type: values.type };
      return put(at`/vhosts/${name ?? values.name}`, body);
    },
    done: "The virtual host is there",
  });
}
