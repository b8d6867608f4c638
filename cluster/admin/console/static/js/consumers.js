/** Tables of consumers. */

import { h } from "./dom.js";
import { count } from "./format.js";
import { to } from "./routing.js";
import { table } from "./table.js";

export function consumerColumns({ withQueue = true } = {}) {
  return [
    { label: "Consumer tag", sort: "consumer_tag", cell: (one) => one.consumer_tag },
    withQueue && {
      label: "Queue",
      sort: "queue.name",
      cell: ({ queue }) => h("a", { href: to("queues", queue.vhost, queue.name) }, queue.name),
    },
    { label: "Connection", cell: ({ channel_details: channel }) => connectionLink(channel.connection_name) },
    { label: "Channel", numeric: true, cell: ({ channel_details: channel }) => String(channel.number) },
    { label: "User", cell: ({ channel_details: channel }) => channel.user },
    { label: "Node", cell: ({ channel_details: channel }) => channel.node },
    { label: "Acknowledges", cell: (one) => (one.ack_required ? "yes" : "no") },
    { label: "Exclusive", cell: (one) => (one.exclusive ? "yes" : "no") },
    { label: "Prefetch", numeric: true, sort: "prefetch_count", cell: (one) => count(one.prefetch_count) },
  ].filter(Boolean);
}

export function consumerKey(one) {
  return JSON.stringify([one.channel_details.name, one.consumer_tag]);
}

export function consumerTable(rows, { withQueue, empty }) {
  return table({
    caption: "Consumers",
    columns: consumerColumns({ withQueue }),
    rows,
    key: consumerKey,
    empty,
  });
}

export function connectionLink(name) {
  return h("a", { href: to("connections", name) }, name);
}
