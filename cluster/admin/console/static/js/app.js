/** The console as a whole: which page is shown, and what it is asked to show. */

import { announce } from "./announce.js";
import { ApiError } from "./api.js";
import { h } from "./dom.js";
import { Frame } from "./frame.js";
import { clear } from "./history.js";
import { Polling } from "./polling.js";
import { has } from "./rights.js";
import { ROUTES } from "./routes.js";
import { match, parse } from "./routing.js";
import { authorization, end } from "./session.js";
import { signIn } from "./sign_in.js";

export class App {
  #root;
  #frame = null;
  #view = null;
  #asking = new AbortController();
  #polling = new Polling(() => this.#refresh());

  constructor(root) {
    this.#root = root;
    window.addEventListener("hashchange", () => this.#go());
  }

  start() {
    if (authorization() === null) {
      this.#askWho("");
    } else {
      this.#enter();
    }
  }

  #askWho(reason) {
    this.#polling.stop();
    this.#frame = null;
    document.title = "Sign in · quorate";
    const page = signIn(() => this.#enter(), reason);
    this.#root.replaceChildren(page.element);
    page.focus();
  }

  #enter() {
    this.#frame = new Frame({
      places: ROUTES.filter(({ label, tag }) => label && has(tag)).map(({ pattern, label }) => ({
        href: `#/${pattern}`,
        label,
      })),
      onInterval: (seconds) => this.#polling.choose(seconds),
      onLeave: () => this.#leave(""),
    });
    this.#root.replaceChildren(this.#frame.element);
    this.#go();
  }

  #leave(reason) {
    end();
    clear();
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.remove();
    }
    this.#askWho(reason);
  }

  /** Show the page of the address. */
  #go() {
    if (this.#frame === null) {
      return;
    }
    const place = parse(location.hash);
    const found = place && match(ROUTES, place.segments.length ? place.segments : ["overview"]);
    const title = found ? found.route.title(found.names) : "No such page";
    document.title = `${title} · quorate`;
    this.#asking.abort();
    this.#asking = new AbortController();
    const heading = h("h1", { tabindex: "-1" }, title);
    this.#view = found ? found.route.view(this.#context(found.names, place.query)) : missing();
    const actions = h("div", { class: "actions" }, this.#view.actions);
    const header = h("div", { class: "heading" }, heading, actions);
    this.#frame.show(h("div", { class: "page" }, header, this.#view.element), sectionOf(found));
    heading.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    this.#polling.now();
  }

  #context(names, query) {
    return {
      names,
      query,
      refresh: () => this.#polling.now(),
      remember: (parameters) => remember(parameters),
      name: (cluster, node) => this.#frame?.name(cluster, node),
    };
  }

  async #refresh() {
    const view = this.#view;
    const { signal } = this.#asking;
    try {
      const data = await view.load(signal);
      if (view === this.#view && !signal.aborted) {
        view.show(data);
        this.#frame?.warn("");
      }
    } catch (error) {
      if (view === this.#view && !signal.aborted) {
        this.#failed(error);
      }
    }
  }

  #failed(error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    if (error.signedOut) {
      this.#leave("Sign in again: the node no longer takes the password.");
      return;
    }
    this.#frame?.warn(error.message);
    announce(error.message);
  }
}

/** Keep what was chosen on a page in the address, without going anywhere. */
function remember(parameters) {
  const path = location.hash.split("?", 1)[0];
  const text = parameters.toString();
  history.replaceState(null, "", text === "" ? path : `${path}?${text}`);
}

function sectionOf(found) {
  return found ? `#/${found.route.pattern.split("/", 1)[0]}` : "";
}

function missing() {
  const element = h("p", {}, "There is no such page. ", h("a", { href: "#/overview" }, "Overview"));
  return { element, load: async () => null, show: () => {} };
}
