/** What is around every page: navigation, name of the cluster, refresh, theme, user. */

import { h } from "./dom.js";
import { interval, INTERVALS } from "./polling.js";
import { user } from "./session.js";
import { choose as chooseTheme, theme, THEMES } from "./theme.js";

export class Frame {
  #cluster = h("span", { class: "cluster" });
  #banner = h("div", { class: "banner", role: "alert" });
  #links;
  #main = h("main", { id: "main", tabindex: "-1" });

  /** `places`: [{ href, label }]; `onInterval` and `onLeave` are called when the user asks for it. */
  constructor({ places, onInterval, onLeave }) {
    this.#links = places.map(({ href, label }) => h("a", { href }, label));
    this.element = h(
      "div",
      { class: "frame" },
      h(
        "header",
        { class: "top" },
        h(
          "a",
          { class: "brand", href: "#/" },
          h("img", { src: "icon.svg", alt: "", width: 22, height: 22 }),
          "quorate",
        ),
        this.#cluster,
        h("span", { class: "grow" }),
        select("Refresh", INTERVALS, interval(), (value) => onInterval(Number(value))),
        select("Colours", THEMES, theme(), chooseTheme),
        h("span", { class: "user" }, user().name, h("small", {}, user().tags.join(", "))),
        h("button", { type: "button", onClick: onLeave }, "Sign out"),
      ),
      h(
        "nav",
        { "aria-label": "Pages" },
        h(
          "ul",
          {},
          this.#links.map((link) => h("li", {}, link)),
        ),
      ),
      h("div", { class: "content" }, this.#banner, this.#main),
    );
  }

  /** Put a page into the frame; `place` is the link that leads to it. */
  show(element, place) {
    this.#main.replaceChildren(element);
    for (const link of this.#links) {
      if (link.getAttribute("href") === place) {
        link.setAttribute("aria-current", "page");
      } else {
        link.removeAttribute("aria-current");
      }
    }
  }

  name(cluster, node) {
    this.#cluster.textContent = cluster ? `${cluster} · asked at ${node}` : "";
  }

  /** What is wrong at the moment; nothing for an empty text. */
  warn(text) {
    if (this.#banner.textContent !== text) {
      this.#banner.textContent = text;
    }
  }
}

function select(label, options, chosen, onChoice) {
  return h(
    "label",
    { class: "choice" },
    h("span", {}, label),
    h(
      "select",
      { onChange: (event) => onChoice(event.target.value) },
      options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    ),
  );
}
