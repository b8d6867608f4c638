/** What is wrong with the cluster, and what is checked. */

import { get } from "../api.js";
import { badge } from "../badges.js";
import { h } from "../dom.js";
import { octets } from "../format.js";
import { morph } from "../morph.js";
import { monitors } from "../rights.js";
import { table } from "../table.js";

const CHECKS = [
  ["alarms", "No node is short of memory or disk"],
  ["local-alarms", "This node is not short of memory or disk"],
  ["ready-to-serve-clients", "This node serves clients"],
  ["virtual-hosts", "This node serves every virtual host"],
  ["node-is-quorum-critical", "Every partition keeps a majority when this node is stopped"],
  ["certificate-expiration/1/months", "No certificate of this node expires within a month"],
];

export function health() {
  const alarms = h("section", {});
  const checks = h("section", {});
  return {
    element: h("div", {}, alarms, checks),
    async load(signal) {
      const [results, nodes] = await Promise.all([
        Promise.all(CHECKS.map(([path, label]) => result(path, label, signal))),
        monitors() ? get("/nodes", {}, { signal }) : [],
      ]);
      return { results, nodes };
    },
    show({ results, nodes }) {
      morph(alarms, h("section", {}, monitors() && [h("h2", {}, "Alarms"), alarmsOf(nodes)]));
      const columns = [
        { label: "Check", cell: ({ label }) => label },
        { label: "Result", cell: ({ good }) => (good ? badge("passed", "good") : badge("failed", "bad")) },
        { label: "Reason", cell: ({ reason }) => reason },
        { label: "Path", cell: ({ path }) => h("code", {}, `/api/health/checks/${path}`) },
      ];
      const rows = table({ caption: "Health checks", columns, rows: results, key: ({ path }) => path });
      morph(checks, h("section", {}, h("h2", {}, "Health checks"), rows));
    },
  };
}

/** A check that fails is an answer like any other: 503 with a reason. */
async function result(path, label, signal) {
  try {
    await get(`/health/checks/${path}`, {}, { signal });
    return { path, label, good: true, reason: "" };
  } catch (error) {
    if (error.status !== 503) {
      throw error;
    }
    return { path, label, good: false, reason: error.message };
  }
}

function alarmsOf(nodes) {
  const rows = nodes.flatMap((node) => [
    !node.running && { node: node.name, what: "The node does not run, or cannot be reached.", value: "" },
    node.mem_alarm && {
      node: node.name,
      what: "Short of memory: publishers are held back.",
      value: memory(node),
    },
    node.disk_free_alarm && {
      node: node.name,
      what: "Short of disk: publishers are held back.",
      value: disk(node),
    },
    node.running && !node.ready && { node: node.name, what: "The node is not ready for clients.", value: "" },
  ]);
  const columns = [
    { label: "Node", cell: ({ node }) => node },
    { label: "Alarm", cell: ({ what }) => badge(what, "bad") },
    { label: "Now, and the limit", cell: ({ value }) => value },
  ];
  return table({
    caption: "Alarms",
    columns,
    rows: rows.filter(Boolean),
    key: ({ node, what }) => node + what,
    empty: "No alarms: every node runs, and has memory and disk.",
  });
}

const memory = (node) => `${octets(node.mem_used)} of ${octets(node.mem_limit)}`;
const disk = (node) => `${octets(node.disk_free)} free, at least ${octets(node.disk_free_limit)} wanted`;
