/** Declaring queues and exchanges. */

import { at, get, put } from "./api.js";
import { ask } from "./dialog.js";
import { vhostNames } from "./vhosts.js";

const DURABLE = { name: "durable", label: "Durable: survives a restart", kind: "check", value: true };
const ARGUMENTS_HINT = 'A JSON object, such as {"x-delivery-limit": 5}.';

/** Where it is to be, and what it is called. */
function placeFields(vhosts, vhost) {
  return [
    { name: "vhost", label: "Virtual host", kind: "select", options: vhosts, value: vhost || vhosts[0] },
    { name: "name", label: "Name", required: true },
  ];
}

/** Ask for a queue and declare it; resolves with whether that was done. */
export async function declareQueue(vhost) {
  const vhosts = await vhostNames();
  return ask({
    title: "Declare a queue",
    confirm: "Declare",
    fields: [
      ...placeFields(vhosts, vhost),
      {
        name: "type",
        label: "Type",
        kind: "select",
        options: [
          ["", "As the virtual host says"],
          ["quorum", "quorum: replicated"],
          ["classic", "classic: on one node"],
          ["stream", "stream: replicated, kept for all readers"],
        ],
      },
      DURABLE,
      { name: "autoDelete", label: "Deleted with its last consumer", kind: "check" },
      { name: "ttl", label: "Messages expire after (milliseconds)", kind: "number", min: 0 },
      { name: "length", label: "Longest length (messages)", kind: "number", min: 0 },
      { name: "deadLetters", label: "Dead-letter exchange" },
      { name: "more", label: "Further arguments", kind: "json", hint: ARGUMENTS_HINT, rows: 3 },
    ],
    run: (values) =>
      put(at`/queues/${values.vhost}/${values.name}`, {
        durable: values.durable,
        auto_delete: values.autoDelete,
        arguments: queueArguments(values),
      }),
  });
}

function queueArguments({ type, ttl, length, deadLetters, more }) {
  return {
    ...(type && { "x-queue-type": type }),
    ...(ttl !== null && { "x-message-ttl": ttl }),
    ...(length !== null && { "x-max-length": length }),
    ...(deadLetters && { "x-dead-letter-exchange": deadLetters }),
    ...more,
  };
}

/** Ask for an exchange and declare it; resolves with whether that was done. */
export async function declareExchange(vhost) {
  const [vhosts, { exchange_types: types }] = await Promise.all([vhostNames(), get("/overview")]);
  return ask({
    title: "Declare an exchange",
    confirm: "Declare",
    fields: [
      ...placeFields(vhosts, vhost),
      { name: "type", label: "Type", kind: "select", options: types.map(({ name }) => name), value: "topic" },
      DURABLE,
      { name: "autoDelete", label: "Deleted with its last binding", kind: "check" },
      { name: "internal", label: "Internal: only other exchanges publish to it", kind: "check" },
      {
        name: "more",
        label: "Arguments",
        kind: "json",
        hint: 'A JSON object, such as {"alternate-exchange": "lost"}.',
      },
    ],
    run: (values) =>
      put(at`/exchanges/${values.vhost}/${values.name}`, {
        type: values.type,
        durable: values.durable,
        auto_delete: values.autoDelete,
        internal: values.internal,
        arguments: values.more,
      }),
  });
}
