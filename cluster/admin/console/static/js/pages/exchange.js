/** One exchange and its bindings. */

import { at, del, get } from "../api.js";
import { bindFrom, bindingTable } from "../bindings.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { compact, count, rate, rateOf } from "../format.js";
import { remember } from "../history.js";
import { publishMessage } from "../messages.js";
import { morph } from "../morph.js";
import { Plot } from "../plot.js";
import { facts } from "../table.js";

const FLOWS = [
  { name: "publish_in", label: "In" },
  { name: "publish_out", label: "Out, to queues" },
];

export function exchange(context) {
  const { vhost, name } = context.names;
  const flows = new Plot({ title: "Messages a second", series: FLOWS, axis: compact, format: rate });
  const told = h("div", {});
  const lists = h("div", {});
  return {
    actions: actionsOf(vhost, name, context),
    element: h("div", {}, h("div", { class: "plots" }, flows.element, told), lists),
    async load(signal) {
      const [row, from, onto] = await Promise.all([
        get(at`/exchanges/${vhost}/${name}`, {}, { signal }),
        get(at`/exchanges/${vhost}/${name}/bindings/source`, {}, { signal }),
        get(at`/exchanges/${vhost}/${name}/bindings/destination`, {}, { signal }),
      ]);
      return { row, from, onto };
    },
    show({ row, from, onto }) {
      flows.show(remember(`flows of ${JSON.stringify([vhost, name])}`, flowsOf(row)));
      morph(told, h("div", {}, factsOf(row)));
      morph(lists, h("div", {}, bindingsOf(from, onto, context)));
    },
  };
}

function flowsOf({ message_stats: stats }) {
  return Object.fromEntries(FLOWS.map(({ name }) => [name, rateOf(stats, name) ?? 0]));
}

function actionsOf(vhost, name, context) {
  const then = (done) => done && context.refresh();
  const action = (label, run, kind) => h("button", { type: "button", class: kind, onClick: run }, label);
  return [
    action("Publish", () => publishMessage(vhost, name).then(then), "primary"),
    action("Bind", () => bindFrom(vhost, name).then(then)),
    action("Delete", () => remove(vhost, name)),
  ];
}

async function remove(vhost, name) {
  const done = await ask({
    title: `Delete ${name}`,
    text: "The exchange goes with its bindings. Publishing to it is an error from then on.",
    confirm: "Delete",
    danger: true,
    fields: [{ name: "unused", label: "Only if nothing is bound to it", kind: "check" }],
    run: ({ unused }) => del(at`/exchanges/${vhost}/${name}`, { query: { "if-unused": unused } }),
    done: "The exchange is deleted",
  });
  if (done) {
    location.hash = "#/exchanges";
  }
}

function factsOf(row) {
  const given = JSON.stringify(row.arguments);
  return facts([
    ["Virtual host", row.vhost],
    ["Type", row.type],
    ["Durable", row.durable ? "yes" : "no"],
    ["Auto-delete", row.auto_delete ? "yes" : "no"],
    ["Internal", row.internal ? "yes" : "no"],
    ["Arguments", given === "{}" ? "none" : h("code", {}, given)],
    ["Messages in", count(row.message_stats?.publish_in)],
    ["Messages out", count(row.message_stats?.publish_out)],
  ]);
}

function bindingsOf(from, onto, { refresh }) {
  return [
    h(
      "section",
      {},
      h("h2", {}, "Bindings from this exchange"),
      bindingTable({
        caption: "Bindings from this exchange",
        rows: from,
        end: "destination",
        empty: "Nothing is bound to this exchange: what is published to it is dropped.",
        refresh,
      }),
    ),
    onto.length > 0 &&
      h(
        "section",
        {},
        h("h2", {}, "Bindings to this exchange"),
        bindingTable({ caption: "Bindings to this exchange", rows: onto, end: "source", refresh }),
      ),
  ];
}
