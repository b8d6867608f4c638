/** The readers of a stream: names with positions, for which retention waits. */

import { at, del, get } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { count, duration, NOTHING, octets } from "./format.js";
import { table } from "./table.js";

/** The readers of a queue; none unless it is a stream. */
export async function readersOf(row, signal) {
  if (row.type !== "stream") {
    return [];
  }
  const readers = await get(at`/readers/${row.vhost}`, {}, { signal });
  return readers.filter((one) => one.stream === row.name);
}

export function readerTable(rows, refresh) {
  return table({
    caption: "Readers",
    columns: [
      { label: "Reader", cell: (one) => one.reader },
      { label: "Messages behind", numeric: true, cell: (one) => count(one.lag.messages) },
      { label: "Octets of the log", numeric: true, cell: (one) => octets(one.lag.octets) },
      { label: "Time", numeric: true, cell: (one) => duration(1000 * one.lag.seconds) },
      { label: "Retention waits", cell: (one) => waits(one.max_lag) },
      { label: "Lost", numeric: true, cell: lost },
      { label: "Actions", unseen: true, cell: (one) => deletion(one, refresh) },
    ],
    rows,
    key: (one) => one.reader,
    empty: "Nobody reads this stream under a name.",
  });
}

function waits(maxLag) {
  if (maxLag === null) {
    return "no";
  }
  const limits = [
    maxLag.messages && `${count(maxLag.messages)} messages`,
    maxLag.octets && octets(maxLag.octets),
    maxLag.seconds && duration(1000 * maxLag.seconds),
  ];
  return limits.filter(Boolean).join(", ") || NOTHING;
}

function lost(one) {
  return one.lost === null ? `at most ${count(one.lost_at_most)}` : count(one.lost);
}

function deletion({ vhost, stream, reader }, refresh) {
  const run = async () => {
    const done = await ask({
      title: `Delete reader ${reader}`,
      text: "Retention does not wait for the reader any more.",
      confirm: "Delete",
      danger: true,
      run: () => del(at`/readers/${vhost}/${stream}/${reader}`),
      done: "The reader is deleted",
    });
    if (done) {
      refresh();
    }
  };
  return h("button", { type: "button", onClick: run }, "Delete");
}
