/** One connection, with its channels, and the links of AMQP 1.0. */

import { at, get } from "../api.js";
import { state } from "../badges.js";
import { channelColumns } from "../channels.js";
import { closeConnection } from "../closing.js";
import { h } from "../dom.js";
import { moment, octets } from "../format.js";
import { remember } from "../history.js";
import { linksOf } from "../links.js";
import { morph } from "../morph.js";
import { Plot } from "../plot.js";
import { octetTicks } from "../scale.js";
import { facts, table } from "../table.js";

const OCTETS = [
  { name: "recv_oct", label: "From the client" },
  { name: "send_oct", label: "To the client" },
];

export function connection(context) {
  const { name } = context.names;
  const bytes = (value) => (value === undefined ? "–" : `${octets(value)}/s`);
  const drawn = { series: OCTETS, axis: octets, format: bytes, steps: octetTicks };
  const plot = new Plot({ title: "Octets a second", ...drawn });
  const told = h("div", { class: "columns" });
  const channels = h("section", {});
  const links = h("section", {});
  const close = async () => {
    if (await closeConnection(name)) {
      location.hash = "#/connections";
    }
  };
  return {
    actions: [h("button", { type: "button", class: "danger", onClick: close }, "Close")],
    element: h("div", {}, told, h("div", { class: "plots" }, plot.element), channels, links),
    async load(signal) {
      const [row, rows] = await Promise.all([
        get(at`/connections/${name}`, {}, { signal }),
        get(at`/connections/${name}/channels`, {}, { signal }),
      ]);
      const ofLinks = row.protocol === "AMQP 1.0";
      const sessions = ofLinks ? await get(at`/connections/${name}/sessions`, {}, { signal }) : null;
      return { row, rows, sessions };
    },
    show({ row, rows, sessions }) {
      const rates = Object.fromEntries(OCTETS.map(({ name: one }) => [one, row[`${one}_details`].rate]));
      plot.show(remember(`octets of ${name}`, rates));
      morph(told, h("div", {}, connectionFacts(row), clientFacts(row)));
      morph(channels, h("section", {}, h("h2", {}, "Channels"), channelsOf(rows)));
      morph(links, sessions === null ? h("section", {}) : linksOf(sessions));
    },
  };
}

function connectionFacts(row) {
  return h(
    "section",
    {},
    h("h2", {}, "Connection"),
    facts([
      ["User", row.user],
      ["Virtual host", row.vhost],
      ["Node", row.node],
      ["State", state(row.state)],
      ["Since", moment(row.connected_at)],
      ["Protocol", row.protocol],
      ["Log-in", row.auth_mechanism],
      ["Heartbeat", `${row.timeout} s`],
      ["TLS", row.ssl ? `${row.ssl_protocol}, ${row.ssl_cipher}` : "no"],
      ["Certificate", row.peer_cert_subject],
    ]),
  );
}

function clientFacts({ client_properties: properties }) {
  const pairs = Object.entries(properties).map(([name, value]) => [
    name,
    typeof value === "object" ? h("code", {}, JSON.stringify(value)) : String(value),
  ]);
  return h("section", {}, h("h2", {}, "What the client says of itself"), facts(pairs));
}

function channelsOf(rows) {
  const key = ({ name }) => name;
  return table({ caption: "Channels", columns: channelColumns(), rows, key, empty: "No open channels." });
}
