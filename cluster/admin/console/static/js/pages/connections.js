/** All connections. */

import { at } from "../api.js";
import { badge, state } from "../badges.js";
import { connectionLink } from "../consumers.js";
import { h } from "../dom.js";
import { count, octets } from "../format.js";
import { Listing } from "../listing.js";

const COLUMNS = [
  { label: "Connection", sort: "name", cell: ({ name }) => connectionLink(name) },
  {
    label: "Name given by the client",
    sort: "user_provided_name",
    cell: (row) => row.user_provided_name ?? "",
  },
  { label: "User", sort: "user", cell: ({ user }) => user },
  { label: "Virtual host", sort: "vhost", cell: ({ vhost }) => vhost },
  { label: "Node", sort: "node", cell: ({ node }) => node },
  { label: "State", sort: "state", cell: (row) => state(row.state) },
  { label: "Protocol", sort: "protocol", cell: (row) => protocol(row) },
  { label: "Channels", sort: "channels", numeric: true, cell: ({ channels }) => count(channels) },
  {
    label: "From client",
    sort: "recv_oct_details.rate",
    numeric: true,
    cell: (row) => flow(row, "recv_oct"),
  },
  { label: "To client", sort: "send_oct_details.rate", numeric: true, cell: (row) => flow(row, "send_oct") },
];

export function connections(context) {
  return new Listing(context, {
    path: (vhost) => (vhost ? at`/vhosts/${vhost}/connections` : "/connections"),
    caption: "Connections",
    columns: COLUMNS,
    key: ({ name }) => name,
    vhosts: true,
    empty: "Nobody is connected.",
  });
}

function protocol({ protocol: name, ssl }) {
  return h("span", { class: "badges" }, name, ssl && badge("TLS", "good"));
}

function flow(row, name) {
  return `${octets(row[`${name}_details`].rate)}/s`;
}
