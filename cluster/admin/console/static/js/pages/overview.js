/** The cluster at a glance. */

import { announceFigures } from "../announce.js";
import { get } from "../api.js";
import { h } from "../dom.js";
import { compact, count, counted, rate, rateOf } from "../format.js";
import { remember } from "../history.js";
import { morph } from "../morph.js";
import { Plot } from "../plot.js";
import { monitors } from "../rights.js";
import { nodeTable } from "../nodes.js";

const PUBLISHED = "publish";
const RATES = [
  { name: PUBLISHED, label: "Published" },
  { name: "deliver_get", label: "Delivered" },
  { name: "ack", label: "Acknowledged" },
  { name: "confirm", label: "Confirmed" },
];
const DEPTHS = [
  { name: "messages_ready", label: "Ready" },
  { name: "messages_unacknowledged", label: "Unacknowledged" },
];
const OBJECTS = ["connections", "channels", "consumers", "queues", "exchanges"];

export function overview(context) {
  const tiles = h("div", { class: "tiles" });
  const rates = new Plot({ title: "Messages a second", series: RATES, axis: compact, format: rate });
  const depths = new Plot({ title: "Messages in queues", series: DEPTHS, axis: compact, format: count });
  const nodes = h("section", {});
  const plots = h("div", { class: "plots" }, rates.element, depths.element);
  return {
    element: h("div", {}, tiles, plots, nodes),
    async load(signal) {
      const [cluster, rows] = await Promise.all([
        get("/overview", {}, { signal }),
        monitors() ? get("/nodes", {}, { signal }) : null,
      ]);
      return { cluster, rows };
    },
    show({ cluster, rows }) {
      context.name(cluster.cluster_name, cluster.node);
      morph(tiles, h("div", {}, tilesOf(cluster)));
      rates.show(remember("overview rates", ratesOf(cluster.message_stats)));
      depths.show(remember("overview depths", cluster.queue_totals));
      morph(nodes, h("section", {}, rows && [h("h2", {}, "Nodes"), nodeTable(rows)]));
      announceFigures(spoken(cluster));
    },
  };
}

function ratesOf(stats) {
  return Object.fromEntries(RATES.map(({ name }) => [name, rateOf(stats, name)]));
}

function tilesOf({ queue_totals: totals, object_totals: objects, message_stats: stats }) {
  return [
    tile("Ready", count(totals.messages_ready), "#/queues?sort=messages_ready&reverse=true"),
    tile(
      "Unacked",
      count(totals.messages_unacknowledged),
      "#/queues?sort=messages_unacknowledged&reverse=true",
    ),
    tile("Publish rate", rate(rateOf(stats, PUBLISHED))),
    tile("Delivery rate", rate(rateOf(stats, "deliver_get"))),
    ...OBJECTS.map((name) => tile(name[0].toUpperCase() + name.slice(1), count(objects[name]), `#/${name}`)),
  ];
}

function tile(label, value, href) {
  const inside = [h("span", { class: "label" }, label), h("span", { class: "value" }, value)];
  return href ? h("a", { class: "tile", href }, inside) : h("div", { class: "tile" }, inside);
}

function spoken({ queue_totals: totals, message_stats: stats }) {
  const ready = counted(totals.messages_ready, "message");
  const unacknowledged = count(totals.messages_unacknowledged);
  return `${ready} ready, ${unacknowledged} unacknowledged, publishing ${rate(rateOf(stats, PUBLISHED))}`;
}
