/** Tables of the links of an AMQP 1.0 connection. */

import { h } from "./dom.js";
import { count } from "./format.js";
import { table } from "./table.js";

const COLUMNS = [
  { label: "Link", cell: ({ link_name: name }) => name },
  { label: "Session", numeric: true, cell: ({ session }) => String(session) },
  { label: "Handle", numeric: true, cell: ({ handle }) => String(handle) },
  { label: "Sender", cell: ({ direction }) => (direction === "in" ? "client" : "node") },
  { label: "Source", cell: ({ source_address: address }) => address ?? "–" },
  { label: "Target", cell: ({ target_address: address }) => address ?? "–" },
  { label: "Settled", cell: ({ send_settled: settled }) => (settled ? "yes" : "no") },
  { label: "Credit", numeric: true, cell: ({ credit }) => count(credit) },
  { label: "Deliveries", numeric: true, cell: ({ delivery_count: deliveries }) => count(deliveries) },
];

/** `sessions` are those of `/api/connections/NAME/sessions`. */
export function linksOf(sessions) {
  const rows = sessions.flatMap((session) => [
    ...session.incoming_links.map((link) => ({ ...link, session: session.channel_number, direction: "in" })),
    ...session.outgoing_links.map((link) => ({ ...link, session: session.channel_number, direction: "out" })),
  ]);
  const key = ({ session, handle }) => `${session}/${handle}`;
  const found = table({ caption: "Links", columns: COLUMNS, rows, key, empty: "No attached links." });
  return h("section", {}, h("h2", {}, "Links"), found);
}
