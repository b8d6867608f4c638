/** Tables of rows that change while they are looked at. */

import { h } from "./dom.js";

/**
 * A fresh table, to be morphed into the one that is shown.
 *
 * `columns`: { label, cell(row), numeric, sort, hidden, unseen }; `cell` gives text or a node, `sort` names
 * what `onSort` is called with, and the label of an `unseen` column is for screen readers only. The first
 * column names the row. `key(row)` tells rows apart.
 */
export function table({ caption, columns, rows, key, order, onSort, empty = "Nothing here." }) {
  if (rows.length === 0) {
    return h("p", { class: "empty", "data-key": "empty" }, empty);
  }
  const shown = columns.filter((column) => column && !column.hidden);
  return h(
    "div",
    { class: "scroller", "data-key": "table", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          shown.map((column) => heading(column, order, onSort)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => bodyRow(row, shown, key)),
      ),
    ),
  );
}

function bodyRow(row, columns, key) {
  return h(
    "tr",
    { "data-key": key(row) },
    columns.map((column, place) => {
      const kind = column.numeric ? "number" : null;
      return place === 0
        ? h("th", { scope: "row", class: kind }, column.cell(row))
        : h("td", { class: kind }, column.cell(row));
    }),
  );
}

function heading(column, order, onSort) {
  const kind = column.numeric ? "number" : null;
  if (!column.sort || !onSort) {
    const label = column.unseen ? h("span", { class: "unseen" }, column.label) : column.label;
    return h("th", { scope: "col", class: kind }, label);
  }
  const sorted = order?.sort === column.sort ? (order.reverse ? "descending" : "ascending") : null;
  return h(
    "th",
    { scope: "col", class: kind, "aria-sort": sorted },
    h("button", { type: "button", class: "sort", onClick: () => onSort(column) }, column.label),
  );
}

/** Names and values, as a description list; what is null is left out. */
export function facts(pairs) {
  const shown = pairs.filter((pair) => pair && pair[1] !== null && pair[1] !== undefined);
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}
