/** Tables of channels. */

import { badge, state } from "./badges.js";
import { connectionLink } from "./consumers.js";
import { h } from "./dom.js";
import { count, rate, rateOf } from "./format.js";

const stat = (name) => `message_stats.${name}_details.rate`;

export function channelColumns() {
  return [
    {
      label: "Channel",
      sort: "name",
      cell: ({ number, connection_details: connection }) =>
        h("span", {}, connectionLink(connection.name), ` (${number})`),
    },
    { label: "User", sort: "user", cell: ({ user }) => user },
    { label: "Virtual host", sort: "vhost", cell: ({ vhost }) => vhost },
    { label: "Node", sort: "node", cell: ({ node }) => node },
    { label: "State", sort: "state", cell: (row) => state(row.state) },
    { label: "Mode", cell: (row) => modes(row) },
    { label: "Consumers", sort: "consumer_count", numeric: true, cell: (row) => count(row.consumer_count) },
    { label: "Prefetch", sort: "prefetch_count", numeric: true, cell: (row) => count(row.prefetch_count) },
    {
      label: "Unacked",
      sort: "messages_unacknowledged",
      numeric: true,
      cell: (row) => count(row.messages_unacknowledged),
    },
    {
      label: "Unconfirmed",
      sort: "messages_unconfirmed",
      numeric: true,
      cell: (row) => count(row.messages_unconfirmed),
    },
    ...[
      ["Publish", "publish"],
      ["Deliver", "deliver_get"],
      ["Ack", "ack"],
    ].map(([label, name]) => ({
      label,
      sort: stat(name),
      numeric: true,
      cell: (row) => rate(rateOf(row.message_stats, name)),
    })),
  ];
}

function modes({ confirm, transactional }) {
  const all = [confirm && badge("confirms"), transactional && badge("transactions")];
  return h("span", { class: "badges" }, all);
}
