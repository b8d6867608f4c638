/** The map of the cluster: which node owns which partition, and how far the replicas are. */

import { at, get, put } from "../api.js";
import { badge } from "../badges.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { count, counted } from "../format.js";
import { morph } from "../morph.js";
import { nodeTable } from "../nodes.js";
import { administers } from "../rights.js";
import { table } from "../table.js";

const TRANSIENT = "transient";

export function cluster(context) {
  const nodes = h("section", {});
  const map = h("section", {});
  return {
    element: h("div", {}, nodes, map),
    async load(signal) {
      const [rows, partitions] = await Promise.all([
        get("/nodes", {}, { signal }),
        get("/partitions", {}, { signal }),
      ]);
      return { rows, partitions: partitions.filter(({ kind, queues }) => kind !== TRANSIENT || queues > 0) };
    },
    show({ rows, partitions }) {
      morph(nodes, h("section", {}, h("h2", {}, "Nodes"), nodeTable(rows)));
      morph(map, h("section", {}, h("h2", {}, "Partitions"), legend(), mapOf(rows, partitions, context)));
    },
  };
}

function legend() {
  return h(
    "p",
    { class: "note" },
    "A partition is one replicated log; its owner alone decides who gets a message of its queues. ",
    "A follower's lag is how many entries of the log it is not known to have on its disk.",
  );
}

function mapOf(nodes, partitions, context) {
  const columns = [
    { label: "Partition", cell: (one) => nameOf(one) },
    { label: "Queues", numeric: true, cell: (one) => (one.kind === "catalog" ? "" : count(one.queues)) },
    { label: "Term", numeric: true, cell: (one) => count(one.term) },
    { label: "Log", numeric: true, cell: (one) => count(one.last_index) },
    ...nodes.map((node) => ({ label: node.name, cell: (one) => place(one, node) })),
    administers() && { label: "Owner", cell: (one) => transfer(one, nodes, context) },
  ];
  return table({ caption: "Partitions and their replicas", columns, rows: partitions, key: ({ id }) => id });
}

function nameOf({ id, kind }) {
  const kinds = { catalog: "catalog", transient: "in memory" };
  return h("span", { class: "badges" }, String(id), kinds[kind] && badge(kinds[kind]));
}

/** What a node is to a partition. */
function place(partition, node) {
  if (!partition.members.includes(node.name)) {
    return h("span", { class: "none" }, "no replica");
  }
  if (partition.owner === node.name || (partition.kind === TRANSIENT && node.running)) {
    return badge("owner", "accent");
  }
  if (!node.running) {
    return badge("down", "bad");
  }
  if (partition.owner === null) {
    return badge("no owner", "warning");
  }
  const lag = partition.replicas[node.name];
  return lag > 0 ? badge(`${counted(lag, "entry", "entries")} behind`, "warning") : badge("in step", "good");
}

function transfer(partition, nodes, context) {
  const running = nodes.filter(({ running }) => running).map(({ name }) => name);
  const heirs = partition.members.filter((name) => running.includes(name) && name !== partition.owner);
  if (partition.owner === null || heirs.length === 0) {
    return "";
  }
  const { id } = partition;
  const label = `Hand over partition ${id}`;
  return h(
    "button",
    { type: "button", "aria-label": label, onClick: () => handOver(id, heirs, context) },
    "Hand over",
  );
}

async function handOver(id, heirs, context) {
  const done = await ask({
    title: `Hand over partition ${id}`,
    text: "Its queues go on: confirms wait for a moment, and no consumer sees a redelivery.",
    confirm: "Hand over",
    fields: [{ name: "node", label: "New owner", kind: "select", options: heirs }],
    run: (values) => put(at`/partitions/${String(id)}/owner`, values),
    done: `Partition ${id} is being handed over`,
  });
  if (done) {
    context.refresh();
  }
}
