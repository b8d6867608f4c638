/** One queue: what is in it, where it is, and everything that can be done to it. */

import { at, del, get } from "../api.js";
import { state } from "../badges.js";
import { bindingTable, bindTo } from "../bindings.js";
import { consumerTable } from "../consumers.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { Form } from "../form.js";
import { compact, count, counted, rate, rateOf } from "../format.js";
import { remember } from "../history.js";
import { getPanel, publishMessage } from "../messages.js";
import { morph } from "../morph.js";
import { bringBack, moveMessages, replayMessages } from "../moving.js";
import { Plot } from "../plot.js";
import { readersOf, readerTable } from "../readers.js";
import { facts } from "../table.js";

const DEPTHS = [
  { name: "messages_ready", label: "Ready" },
  { name: "messages_unacknowledged", label: "Unacknowledged" },
];
const RATES = [
  { name: "publish", label: "Published" },
  { name: "deliver_get", label: "Delivered" },
  { name: "ack", label: "Acknowledged" },
  { name: "redeliver", label: "Redelivered" },
];

export function queue(context) {
  const { vhost, name } = context.names;
  const depths = new Plot({ title: "Messages", series: DEPTHS, axis: compact, format: count });
  const rates = new Plot({ title: "Messages a second", series: RATES, axis: compact, format: rate });
  const told = h("div", { class: "columns" });
  const lists = h("div", {});
  const messages = getPanel(vhost, name, { Form, onTaken: () => context.refresh() });
  const view = { ready: 0 };
  return {
    actions: actionsOf(vhost, name, view, context),
    element: h(
      "div",
      {},
      h("div", { class: "plots" }, depths.element, rates.element),
      told,
      h("section", {}, h("h2", {}, "Get messages"), messages),
      lists,
    ),
    async load(signal) {
      const [row, bindings] = await Promise.all([
        get(at`/queues/${vhost}/${name}`, {}, { signal }),
        get(at`/queues/${vhost}/${name}/bindings`, {}, { signal }),
      ]);
      return { row, bindings, readers: await readersOf(row, signal) };
    },
    show({ row, bindings, readers }) {
      view.ready = row.messages_ready ?? 0;
      const key = JSON.stringify([vhost, name]);
      depths.show(remember(`depth of ${key}`, row));
      rates.show(remember(`rates of ${key}`, ratesOf(row.message_stats)));
      morph(told, h("div", {}, placeOf(row), countsOf(row)));
      const ends = bindingsOf(vhost, name, bindings, context);
      morph(lists, h("div", {}, consumersOf(row), readersSection(row, readers, context), ends));
    },
  };
}

function ratesOf(stats) {
  return Object.fromEntries(RATES.map(({ name }) => [name, rateOf(stats, name)]));
}

function actionsOf(vhost, name, view, context) {
  const then = (done) => done && context.refresh();
  const action = (label, run, kind) => h("button", { type: "button", class: kind, onClick: run }, label);
  return [
    action("Publish", () => publishMessage(vhost, "amq.default", name).then(then), "primary"),
    action("Move messages", () => moveMessages(vhost, name, view.ready).then(then)),
    action("Publish anew", () => replayMessages(vhost, name, view.ready).then(then)),
    action("Bring back", () => bringBack(vhost, name).then(then)),
    action("Purge", () => purge(vhost, name, view.ready).then(then)),
    action("Delete", () => remove(vhost, name)),
  ];
}

function purge(vhost, name, ready) {
  return ask({
    title: `Purge ${name}`,
    text: `All messages that are ready are removed for good; there are ${counted(ready, "message")} now.`,
    confirm: "Purge",
    danger: true,
    run: () => del(at`/queues/${vhost}/${name}/contents`),
    done: "The queue is purged",
  });
}

async function remove(vhost, name) {
  const done = await ask({
    title: `Delete ${name}`,
    text: "The queue goes with its messages and its bindings; its consumers are told.",
    confirm: "Delete",
    danger: true,
    fields: [
      { name: "empty", label: "Only if it is empty", kind: "check" },
      { name: "unused", label: "Only if it has no consumers", kind: "check" },
    ],
    run: ({ empty, unused }) =>
      del(at`/queues/${vhost}/${name}`, { query: { "if-empty": empty, "if-unused": unused } }),
    done: "The queue is deleted",
  });
  if (done) {
    location.hash = "#/queues";
  }
}

function placeOf(row) {
  const replicas = (row.members ?? [row.node]).map((member) => {
    const online = row.online?.includes(member) ?? row.state === "running";
    return `${member}${member === row.node ? " (owner)" : ""}${online ? "" : " (down)"}`;
  });
  const given = Object.entries(row.arguments).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return h(
    "section",
    {},
    h("h2", {}, "Queue"),
    facts([
      ["Virtual host", row.vhost],
      ["Type", row.type],
      ["State", state(row.state)],
      ["Replicas", replicas.join(", ")],
      ["Partition", row.partition === undefined ? null : String(row.partition)],
      ["Durable", row.durable ? "yes" : "no"],
      ["Auto-delete", row.auto_delete ? "yes" : "no"],
      ["Exclusive", row.exclusive ? "yes" : "no"],
      ["Arguments", given.length ? h("code", {}, given.join("\n")) : "none"],
    ]),
  );
}

function countsOf(row) {
  const stats = row.message_stats ?? {};
  return h(
    "section",
    {},
    h("h2", {}, "Counts"),
    facts([
      ["Ready", count(row.messages_ready)],
      ["Unacknowledged", count(row.messages_unacknowledged)],
      ["Scheduled", count(row.messages_scheduled)],
      ["Consumers", count(row.consumers)],
      ["Published", count(stats.publish)],
      ["Delivered", count(stats.deliver_get)],
      ["Redelivered", count(stats.redeliver)],
      ["Acknowledged", count(stats.ack)],
      ["Idle since", row.idle_since ? new Date(row.idle_since).toLocaleString("en-GB") : null],
    ]),
  );
}

function consumersOf(row) {
  const rows = row.consumer_details;
  const shown = consumerTable(rows, { withQueue: false, empty: "Nobody consumes from this queue." });
  return h("section", {}, h("h2", {}, "Consumers"), shown);
}

function readersSection(row, readers, context) {
  const shown = readerTable(readers, context.refresh);
  return row.type === "stream" ? h("section", {}, h("h2", {}, "Readers"), shown) : false;
}

function bindingsOf(vhost, name, bindings, context) {
  const bind = () => bindTo(vhost, "q", name).then((done) => done && context.refresh());
  return h(
    "section",
    {},
    h(
      "div",
      { class: "heading" },
      h("h2", {}, "Bindings"),
      h("button", { type: "button", onClick: bind }, "Bind"),
    ),
    bindingTable({
      caption: "Bindings to this queue",
      rows: bindings,
      end: "source",
      refresh: context.refresh,
    }),
  );
}
