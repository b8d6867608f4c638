/** What nodes tell of themselves, as rows. */

import { badge, state } from "./badges.js";
import { h } from "./dom.js";
import { count, duration, NOTHING, octets, share } from "./format.js";
import { table } from "./table.js";

export function nodeTable(rows) {
  return table({ caption: "Nodes", columns: COLUMNS, rows, key: (node) => node.name });
}

const COLUMNS = [
  { label: "Node", cell: (node) => node.name },
  { label: "State", cell: (node) => nodeState(node) },
  { label: "Uptime", numeric: true, cell: (node) => duration(node.uptime) },
  { label: "Memory", numeric: true, cell: (node) => gauge(node.mem_used, node.mem_limit, node.mem_alarm) },
  { label: "Disk free", numeric: true, cell: (node) => octets(node.disk_free) },
  { label: "Journal", numeric: true, cell: (node) => octets(node.journal_bytes) },
  { label: "File descriptors", numeric: true, cell: (node) => gaugeCount(node.fd_used, node.fd_total) },
  { label: "Clients", numeric: true, cell: (node) => count(node.sockets_used) },
  { label: "Process", numeric: true, cell: (node) => node.os_pid ?? NOTHING },
];

/** Running or not, and what the node is short of. */
export function nodeState(node) {
  if (!node.running) {
    return state("down");
  }
  return h(
    "span",
    { class: "badges" },
    node.ready ? state("running") : badge("not ready", "warning"),
    node.mem_alarm && badge("memory alarm", "bad"),
    node.disk_free_alarm && badge("disk alarm", "bad"),
  );
}

function gauge(used, limit, alarm) {
  if (used === undefined) {
    return NOTHING;
  }
  const title = limit
    ? `${share(used, limit)} of the ${octets(limit)} at which publishers are held back`
    : "no limit";
  return h(
    "span",
    { class: "gauge", title },
    limit
      ? h("meter", { min: 0, max: limit, value: used, high: alarm ? 0 : limit * 0.8, "aria-label": title })
      : null,
    octets(used),
  );
}

function gaugeCount(used, total) {
  return used === undefined ? NOTHING : h("span", { title: `of ${count(total)}` }, count(used));
}
