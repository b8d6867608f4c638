/** Every page: where it is, what it is called, whose tag it takes, and what makes it. */

import { channels } from "./pages/channels.js";
import { cluster } from "./pages/cluster.js";
import { connection } from "./pages/connection.js";
import { connections } from "./pages/connections.js";
import { consumers } from "./pages/consumers.js";
import { definitions } from "./pages/definitions.js";
import { exchange } from "./pages/exchange.js";
import { exchanges } from "./pages/exchanges.js";
import { health } from "./pages/health.js";
import { overview } from "./pages/overview.js";
import { queue } from "./pages/queue.js";
import { queues } from "./pages/queues.js";
import { user } from "./pages/user.js";
import { users } from "./pages/users.js";
import { vhost } from "./pages/vhost.js";
import { vhosts } from "./pages/vhosts.js";

const EVERYBODY = "management";
const MONITORING = "monitoring";
const ADMINISTRATOR = "administrator";

/** Those with a `label` are in the navigation, in this order. */
export const ROUTES = [
  listed("overview", "Overview", EVERYBODY, overview),
  listed("cluster", "Cluster", MONITORING, cluster),
  listed("health", "Alarms and health", EVERYBODY, health),
  listed("queues", "Queues", EVERYBODY, queues),
  { pattern: "queues/:vhost/:name", tag: EVERYBODY, title: ({ name }) => name, view: queue },
  listed("exchanges", "Exchanges", EVERYBODY, exchanges),
  {
    pattern: "exchanges/:vhost/:name",
    tag: EVERYBODY,
    title: ({ name }) => (name === "amq.default" ? "The default exchange" : name),
    view: exchange,
  },
  listed("connections", "Connections", EVERYBODY, connections),
  { pattern: "connections/:name", tag: EVERYBODY, title: ({ name }) => name, view: connection },
  listed("channels", "Channels", EVERYBODY, channels),
  listed("consumers", "Consumers", EVERYBODY, consumers),
  listed("vhosts", "Virtual hosts", EVERYBODY, vhosts),
  { pattern: "vhosts/:name", tag: EVERYBODY, title: ({ name }) => `Virtual host ${name}`, view: vhost },
  listed("users", "Users", ADMINISTRATOR, users),
  { pattern: "users/:name", tag: ADMINISTRATOR, title: ({ name }) => `User ${name}`, view: user },
  listed("definitions", "Definitions", ADMINISTRATOR, definitions),
];

function listed(pattern, label, tag, view) {
  return { pattern, label, tag, title: () => label, view };
}
