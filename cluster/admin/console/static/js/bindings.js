/** Bindings: tables of them, making and removing them. */

import { at, del, post } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { to } from "./routing.js";
import { table } from "./table.js";

const DEFAULT = "amq.default";
const EXCHANGE = "exchange";

/** A table of bindings; `end` is the end to be shown: "source" or "destination". */
export function bindingTable({ caption, rows, end, empty, refresh }) {
  const columns = [
    end === "source"
      ? { label: "From", cell: (row) => exchangeLink(row.vhost, row.source) }
      : { label: "To", cell: destinationLink },
    { label: "Routing key", cell: (row) => h("code", {}, row.routing_key) },
    { label: "Arguments", cell: (row) => argumentsOf(row) },
    { label: "Remove", unseen: true, cell: (row) => removal(row, refresh) },
  ];
  return table({ caption, columns, rows, key: keyOf, empty });
}

export function exchangeLink(vhost, name) {
  return h("a", { href: to("exchanges", vhost, name || DEFAULT) }, name || "the default exchange");
}

function destinationLink(row) {
  return row.destination_type === EXCHANGE
    ? h("span", {}, exchangeLink(row.vhost, row.destination), " (exchange)")
    : h("a", { href: to("queues", row.vhost, row.destination) }, row.destination);
}

function argumentsOf({ arguments: given }) {
  return Object.keys(given).length ? h("code", {}, JSON.stringify(given)) : "";
}

function keyOf(row) {
  return JSON.stringify([row.source, row.destination_type, row.destination, row.properties_key]);
}

function removal(row, refresh) {
  if (row.source === "") {
    return "";
  }
  const label = `Unbind ${row.destination} from ${row.source}, routing key ${row.routing_key}`;
  return h("button", { type: "button", "aria-label": label, onClick: () => unbind(row, refresh) }, "Unbind");
}

async function unbind(row, refresh) {
  const kind = row.destination_type === EXCHANGE ? "e" : "q";
  const { vhost, source, destination, properties_key: key } = row;
  const done = await ask({
    title: "Unbind",
    text: `${destination} gets no more messages of ${source} with the routing key “${row.routing_key}”.`,
    confirm: "Unbind",
    danger: true,
    run: () => del(at`/bindings/${vhost}/e/${source}/${kind}/${destination}/${key}`),
    done: "The binding is removed",
  });
  if (done) {
    refresh();
  }
}

/** Ask for a binding to a queue or an exchange that is known, from an exchange that is asked for. */
export function bindTo(vhost, kind, destination) {
  const source = { name: "source", label: "From the exchange", required: true };
  return bind(`Bind ${destination}`, [source], (values) => ({ vhost, kind, destination, ...values }));
}

/** Ask for a binding from an exchange. */
export function bindFrom(vhost, source) {
  const ends = [
    {
      name: "kind",
      label: "To a",
      kind: "select",
      options: [
        ["q", "queue"],
        ["e", "exchange"],
      ],
    },
    { name: "destination", label: "Named", required: true },
  ];
  return bind(`Bind to ${source}`, ends, (values) => ({ vhost, source, ...values }));
}

function bind(title, ends, complete) {
  return ask({
    title,
    confirm: "Bind",
    fields: [
      ...ends,
      { name: "key", label: "Routing key" },
      { name: "more", label: "Arguments", kind: "json", hint: 'A JSON object, such as {"x-match": "all"}.' },
    ],
    run: (values) => {
      const { vhost, source, kind, destination, key, more } = complete(values);
      const body = { routing_key: key, arguments: more };
      return post(at`/bindings/${vhost}/e/${source}/${kind}/${destination}`, body);
    },
    done: "The binding is made",
  });
}
