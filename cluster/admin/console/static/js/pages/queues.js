/** All queues. */

import { at } from "../api.js";
import { badge, features, state } from "../badges.js";
import { h } from "../dom.js";
import { count, rate, rateOf } from "../format.js";
import { Listing } from "../listing.js";
import { declareQueue } from "../declare.js";
import { to } from "../routing.js";

const QUEUES = "queues";

export function queues(context) {
  const listing = new Listing(context, {
    path: (vhost) => (vhost ? at`/queues/${vhost}` : "/queues"),
    caption: "Queues",
    columns: COLUMNS,
    key: (queue) => JSON.stringify([queue.vhost, queue.name]),
    vhosts: true,
    empty: "There are no queues yet.",
  });
  const declare = () => declareQueue(listing.vhost).then((done) => done && context.refresh());
  return {
    actions: [h("button", { type: "button", class: "primary", onClick: declare }, "Declare a queue")],
    element: listing.element,
    load: (signal) => listing.load(signal),
    show: (data) => listing.show(data),
  };
}

const stat = (name) => `message_stats.${name}_details.rate`;

const COLUMNS = [
  {
    label: "Name",
    sort: "name",
    cell: (queue) => h("a", { href: to(QUEUES, queue.vhost, queue.name) }, queue.name),
  },
  { label: "Virtual host", sort: "vhost", cell: (queue) => queue.vhost },
  { label: "Type", sort: "type", cell: (queue) => badge(queue.type) },
  { label: "Features", cell: features },
  { label: "State", sort: "state", cell: (queue) => state(queue.state) },
  { label: "Owner", sort: "node", cell: (queue) => queue.node },
  { label: "Ready", sort: "messages_ready", numeric: true, cell: (queue) => count(queue.messages_ready) },
  {
    label: "Unacked",
    sort: "messages_unacknowledged",
    numeric: true,
    cell: (queue) => count(queue.messages_unacknowledged),
  },
  { label: "Consumers", sort: "consumers", numeric: true, cell: (queue) => count(queue.consumers) },
  {
    label: "In",
    sort: stat("publish"),
    numeric: true,
    cell: (queue) => rate(rateOf(queue.message_stats, "publish")),
  },
  {
    label: "Out",
    sort: stat("deliver_get"),
    numeric: true,
    cell: (queue) => rate(rateOf(queue.message_stats, "deliver_get")),
  },
  {
    label: "Acked",
    sort: stat("ack"),
    numeric: true,
    cell: (queue) => rate(rateOf(queue.message_stats, "ack")),
  },
];
