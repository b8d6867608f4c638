/** Filtering, sorting and paging of rows that the API gives as a whole. Pure. */

/** The rows of one page of those whose text holds `name` or matches it, and how many there are in all. */
export function arranged(
  rows,
  { name = "", regex = false, sort = "", reverse = false, page = 1, size = 100 },
  text,
) {
  const found = name === "" ? rows : rows.filter(matcher(name, regex, text));
  const ordered =
    sort === "" ? found : [...found].sort((one, other) => compare(at(one, sort), at(other, sort)));
  if (reverse) {
    ordered.reverse();
  }
  const pages = Math.max(1, Math.ceil(found.length / size));
  const shown = Math.min(page, pages);
  return {
    items: ordered.slice((shown - 1) * size, shown * size),
    page: shown,
    page_count: pages,
    filtered_count: found.length,
    total_count: rows.length,
  };
}

/** Throws SyntaxError for an expression that is none. */
function matcher(name, regex, text) {
  if (regex) {
    const pattern = new RegExp(name, "i");
    return (row) => pattern.test(text(row));
  }
  const wanted = name.toLowerCase();
  return (row) => text(row).toLowerCase().includes(wanted);
}

function at(row, path) {
  return path.split(".").reduce((value, name) => value?.[name], row);
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") {
    return one - other;
  }
  return String(one ?? "").localeCompare(String(other ?? ""), "en", { numeric: true });
}
