/** Publishing, getting and showing messages. */

import { at, post } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { count, counted } from "./format.js";
import { facts } from "./table.js";

const MOST_SHOWN = 50_000;

/** The fields of a message, for a form; `routingKey` is one of them unless it is known. */
export function messageFields({ routingKey } = {}) {
  return [
    routingKey === undefined && { name: "routingKey", label: "Routing key" },
    { name: "payload", label: "Payload", kind: "area", rows: 5 },
    {
      name: "encoding",
      label: "The payload is",
      kind: "select",
      options: [
        ["string", "text"],
        ["base64", "octets in base64"],
      ],
    },
    { name: "persistent", label: "Persistent", kind: "check", value: true },
    {
      name: "headers",
      label: "Headers",
      kind: "json",
      rows: 2,
      hint: 'A JSON object, such as {"tenant": "eu"}.',
    },
    {
      name: "properties",
      label: "Further properties",
      kind: "json",
      rows: 2,
      hint: 'A JSON object, such as {"content_type": "text/plain", "priority": 5}.',
    },
  ];
}

/** Ask for a message and publish it to an exchange; resolves with whether that was done. */
export function publishMessage(vhost, exchange, routingKey) {
  return ask({
    title: routingKey === undefined ? `Publish to ${exchange}` : `Publish to ${routingKey}`,
    confirm: "Publish",
    fields: messageFields({ routingKey }),
    run: (values) => publish(vhost, exchange, { routingKey, ...values }),
    done: "The message is safe in its queues",
  });
}

async function publish(vhost, exchange, values) {
  const { routingKey, payload, encoding, persistent, headers, properties } = values;
  const { routed } = await post(at`/exchanges/${vhost}/${exchange}/publish`, {
    routing_key: routingKey,
    payload,
    payload_encoding: encoding,
    properties: { delivery_mode: persistent ? 2 : 1, headers, ...properties },
  });
  if (!routed) {
    throw new Error("No queue takes a message with this routing key: it was dropped.");
  }
}

const MODES = [
  ["ack_requeue_true", "Look: the messages stay in the queue"],
  ["ack_requeue_false", "Take: they are removed"],
  ["reject_requeue_false", "Reject: they are removed, or go to the dead-letter exchange"],
];

/** The part of a queue's page that gets messages and shows them. */
export function getPanel(vhost, name, { Form, onTaken }) {
  const form = new Form([
    { name: "count", label: "Messages", kind: "number", min: 1, value: 1, required: true },
    { name: "ackmode", label: "What becomes of them", kind: "select", options: MODES },
    { name: "filter", label: "Only those with", hint: "An expression, such as /customer = 17; only to look." },
  ]);
  const shown = h("div", { class: "messages", "aria-live": "polite" });
  const submit = h("button", { type: "submit" }, "Get messages");
  const element = h(
    "form",
    {
      class: "card inline",
      onSubmit: async (event) => {
        event.preventDefault();
        submit.disabled = true;
        try {
          const asked = { ...form.values(), encoding: "auto", truncate: MOST_SHOWN };
          shown.replaceChildren(...shownMessages(await post(at`/queues/${vhost}/${name}/get`, asked)));
          onTaken();
        } catch (error) {
          shown.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
        } finally {
          submit.disabled = false;
        }
      },
    },
    form.element,
    submit,
  );
  return h("div", {}, element, shown);
}

function shownMessages(messages) {
  return messages.length === 0
    ? [h("p", { class: "empty" }, "The queue has no message that is ready.")]
    : messages.map((message, place) => shownMessage(message, place + 1));
}

function shownMessage(message, place) {
  const { properties, payload, payload_encoding: encoding } = message;
  return h(
    "article",
    { class: "card message" },
    h("h3", {}, `Message ${count(place)}`),
    facts([
      ["Bookmark", message.bookmark],
      ["Exchange", message.exchange || "the default exchange"],
      ["Routing key", message.routing_key],
      ["Redelivered", message.redelivered ? "yes" : "no"],
      ...Object.entries(properties).map(([name, value]) => [name, text(value)]),
      [
        "Payload",
        `${counted(message.payload_bytes, "octet")}${encoding === "base64" ? ", shown in base64" : ""}`,
      ],
    ]),
    h("pre", { tabindex: "0", "aria-label": "Payload" }, payload),
  );
}

function text(value) {
  return typeof value === "object" ? h("code", {}, JSON.stringify(value)) : String(value);
}
