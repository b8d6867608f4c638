/** Asks again every few seconds, while the page is looked at. */

const KEY = "quorate.interval";

export const INTERVALS = [
  [2, "every 2 s"],
  [5, "every 5 s"],
  [30, "every 30 s"],
  [0, "paused"],
];

const DEFAULT_S = 5;

/** Seconds between two refreshes; 0 for none. */
export function interval() {
  return Number(localStorage.getItem(KEY) ?? DEFAULT_S);
}

export class Polling {
  #work;
  #timer = null;
  #running = false;

  /** `work` is an async function; what it throws ends nothing but itself. */
  constructor(work) {
    this.#work = work;
    document.addEventListener("visibilitychange", () => this.#seen());
  }

  /** Work now, and go on from there. */
  async now() {
    clearTimeout(this.#timer);
    this.#running = true;
    try {
      await this.#work();
    } finally {
      this.#next();
    }
  }

  stop() {
    clearTimeout(this.#timer);
    this.#running = false;
  }

  choose(seconds) {
    localStorage.setItem(KEY, String(seconds));
    if (this.#running) {
      this.#next();
    }
  }

  #next() {
    clearTimeout(this.#timer);
    if (this.#running && interval() > 0 && !document.hidden) {
      this.#timer = setTimeout(() => this.now(), interval() * 1000);
    }
  }

  #seen() {
    if (this.#running && !document.hidden && interval() > 0) {
      this.now();
    }
  }
}
