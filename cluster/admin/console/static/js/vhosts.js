/** The names of the virtual hosts, for choices of one: asked for when a page is opened. */

import { get } from "./api.js";
import { h } from "./dom.js";

/** A list of options for a datalist or select is made of these names. */
export async function vhostNames() {
  const rows = await get("/vhosts", { columns: "name" });
  return rows.map(({ name }) => name);
}

/** A choice of a virtual host that fills itself; `onChoice` gets its name, "" for all. */
export function vhostChoice(chosen, onChoice) {
  const select = h("select", { onChange: () => onChoice(select.value) });
  const options = (names) => [["", "All virtual hosts"], ...names.map((name) => [name, name])];
  const fill = (names) =>
    select.replaceChildren(
      ...options(names).map(([value, label]) => h("option", { value, selected: value === chosen }, label)),
    );
  fill(chosen ? [chosen] : []);
  vhostNames().then(fill, () => fill(chosen ? [chosen] : []));
  return h("label", { class: "choice" }, h("span", { class: "unseen" }, "Virtual host"), select);
}
