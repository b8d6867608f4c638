/** All exchanges. */

import { at } from "../api.js";
import { badge, features } from "../badges.js";
import { exchangeLink } from "../bindings.js";
import { declareExchange } from "../declare.js";
import { h } from "../dom.js";
import { rate, rateOf } from "../format.js";
import { Listing } from "../listing.js";

const flow = (name) => `message_stats.${name}_details.rate`;

const COLUMNS = [
  { label: "Name", sort: "name", cell: ({ vhost, name }) => exchangeLink(vhost, name) },
  { label: "Virtual host", sort: "vhost", cell: ({ vhost }) => vhost },
  { label: "Type", sort: "type", cell: ({ type }) => badge(type) },
  { label: "Features", cell: features },
  {
    label: "In",
    sort: flow("publish_in"),
    numeric: true,
    cell: ({ message_stats: stats }) => rate(rateOf(stats, "publish_in")),
  },
  {
    label: "Out",
    sort: flow("publish_out"),
    numeric: true,
    cell: ({ message_stats: stats }) => rate(rateOf(stats, "publish_out")),
  },
];

export function exchanges(context) {
  const listing = new Listing(context, {
    path: (vhost) => (vhost ? at`/exchanges/${vhost}` : "/exchanges"),
    caption: "Exchanges",
    columns: COLUMNS,
    key: ({ vhost, name }) => JSON.stringify([vhost, name]),
    vhosts: true,
  });
  const declare = () => declareExchange(listing.vhost).then((done) => done && context.refresh());
  return {
    actions: [h("button", { type: "button", class: "primary", onClick: declare }, "Declare an exchange")],
    element: listing.element,
    load: (signal) => listing.load(signal),
    show: (data) => listing.show(data),
  };
}
