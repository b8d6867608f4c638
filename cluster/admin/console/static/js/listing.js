/** A list with a filter, an order and pages; what is chosen is in the address, and so survives a reload. */

import { get } from "./api.js";
import { freshId, h } from "./dom.js";
import { count } from "./format.js";
import { morph } from "./morph.js";
import { arranged } from "./order.js";
import { table } from "./table.js";
import { vhostChoice } from "./vhosts.js";

const PAGE_SIZE = 100;
const TYPING_MS = 250;

/**
 * `path()` is where the rows are; `paged`: the node filters, sorts and pages, otherwise the console does,
 * by `text(row)`. `columns`, `key`, `caption` and `empty` are the table's; with `vhosts` one can be chosen.
 */
export class Listing {
  #options;
  #context;
  #state;
  #body = h("div", { "data-own": "" });
  #typing = null;

  constructor(context, options) {
    this.#context = context;
    this.#options = { paged: true, text: (row) => String(row.name ?? ""), ...options };
    const asked = context.query;
    this.#state = {
      name: asked.get("name") ?? "",
      regex: asked.get("regex") === "true",
      vhost: asked.get("vhost") ?? "",
      sort: asked.get("sort") ?? options.sort ?? "",
      reverse: (asked.get("reverse") ?? String(options.reverse ?? false)) === "true",
      page: Number(asked.get("page") ?? 1) || 1,
    };
    this.element = h("section", { class: "listing" }, this.#toolbar(), this.#body);
  }

  get vhost() {
    return this.#state.vhost;
  }

  async load(signal) {
    const { name, regex, sort, reverse, page } = this.#state;
    const path = this.#options.path(this.#state.vhost);
    if (this.#options.paged) {
      const query = { page, page_size: PAGE_SIZE, name, use_regex: regex, sort, sort_reverse: reverse };
      return this.#page(path, query, signal);
    }
    const rows = await get(path, {}, { signal });
    return arranged(rows, { name, regex, sort, reverse, page, size: PAGE_SIZE }, this.#options.text);
  }

  /** A page that is no longer there, as the list got shorter, is not what is wanted: the first one is. */
  async #page(path, query, signal) {
    try {
      return await get(path, query, { signal });
    } catch (error) {
      if (error.status !== 400 || query.page === 1) {
        throw error;
      }
      this.#state.page = 1;
      return get(path, { ...query, page: 1 }, { signal });
    }
  }

  show(data) {
    const { caption, columns, key, empty } = this.#options;
    const rows = table({
      caption,
      columns,
      rows: data.items,
      key,
      empty: this.#state.name ? "Nothing matches the filter." : empty,
      order: this.#state,
      onSort: (column) => this.#sort(column),
    });
    morph(this.#body, h("div", {}, rows, this.#pager(data)));
  }

  #toolbar() {
    const filter = freshId("filter");
    const regex = freshId("regex");
    return h(
      "div",
      { class: "toolbar", role: "search" },
      h("label", { for: filter, class: "unseen" }, "Filter by name"),
      h("input", {
        id: filter,
        type: "search",
        value: this.#state.name,
        placeholder: "Filter by name",
        autocomplete: "off",
        spellcheck: "false",
        onInput: (event) => this.#typed(event.target.value),
      }),
      h(
        "label",
        { class: "check", for: regex },
        h("input", {
          id: regex,
          type: "checkbox",
          checked: this.#state.regex,
          onChange: (event) => this.#change({ regex: event.target.checked, page: 1 }),
        }),
        "Regular expression",
      ),
      this.#options.vhosts && vhostChoice(this.#state.vhost, (vhost) => this.#change({ vhost, page: 1 })),
      h("span", { class: "grow" }),
      this.#options.actions,
    );
  }

  #typed(name) {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.#change({ name, page: 1 }), TYPING_MS);
  }

  #sort(column) {
    const again = this.#state.sort === column.sort;
    const reverse = again ? !this.#state.reverse : Boolean(column.numeric);
    this.#change({ sort: column.sort, reverse, page: 1 });
  }

  #change(change) {
    Object.assign(this.#state, change);
    const kept = Object.entries(this.#state).filter(([, value]) => value !== "" && value !== false);
    this.#context.remember(new URLSearchParams(kept.filter(([name, value]) => name !== "page" || value > 1)));
    this.#context.refresh();
  }

  #pager({ page, page_count, filtered_count, total_count }) {
    const step = (to, label, able) =>
      h("button", { type: "button", disabled: !able, onClick: () => this.#turn(to) }, label);
    const all = filtered_count === total_count ? "" : ` of ${count(total_count)}`;
    return h(
      "div",
      { class: "pager", "data-key": "pager" },
      h("span", { role: "status" }, `${count(filtered_count)}${all}`),
      page_count > 1 && [
        step(-1, "Previous", page > 1),
        h("span", {}, `page ${count(page)} of ${count(page_count)}`),
        step(1, "Next", page < page_count),
      ],
    );
  }

  #turn(by) {
    this.#change({ page: this.#state.page + by });
  }
}
