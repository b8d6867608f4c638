/** Lines over time, drawn as SVG. */

import { h, svg } from "./dom.js";
import { SPAN_MS } from "./history.js";
import { nearest, path, ticks } from "./scale.js";

const HEIGHT = 170;
const MARGIN = { top: 8, right: 8, bottom: 22, left: 46 };
const MINUTE_MS = 60_000;
const NARROW = 520;

export class Plot {
  #title;
  #series;
  #axis;
  #ticks;
  #format;
  #points = [];
  #chosen = null;
  #drawing = svg("svg", { height: HEIGHT, "aria-hidden": "true" });
  #frame;
  #legend = h("ul", { class: "legend" });
  #time = h("span", { class: "time" });

  /**
   * `series`: { name, label }, drawn in the colours 1, 2, …; `axis` and `format` write values, and `steps`
   * says which of them the axis has.
   */
  constructor({ title, series, axis, format, steps = ticks }) {
    this.#title = title;
    this.#series = series;
    this.#axis = axis;
    this.#ticks = steps;
    this.#format = format;
    this.#frame = h(
      "div",
      {
        class: "drawing",
        tabindex: "0",
        role: "img",
        onPointermove: (event) => this.#point(event),
        onPointerleave: () => this.#choose(null),
        onKeydown: (event) => this.#key(event),
        onBlur: () => this.#choose(null),
      },
      this.#drawing,
    );
    this.element = h(
      "figure",
      { class: "plot", "data-own": "" },
      h("figcaption", {}, h("h2", {}, title), this.#time),
      this.#frame,
      this.#legend,
    );
    new ResizeObserver(() => this.#draw()).observe(this.#frame);
  }

  /** `points`: [{ at, values }], oldest first. */
  show(points) {
    this.#points = points;
    this.#draw();
  }

  #draw() {
    const width = this.#frame.clientWidth;
    if (width === 0) {
      return;
    }
    const end = this.#points.at(-1)?.at ?? Date.now();
    const lines = this.#series.map(({ name }) =>
      this.#points.map(({ at, values }) => ({ at, value: values[name] })),
    );
    const steps = this.#ticks(Math.max(0, ...lines.flat().map(({ value }) => value ?? 0)));
    const x = (at) => width - MARGIN.right - ((end - at) / SPAN_MS) * (width - MARGIN.left - MARGIN.right);
    const span = HEIGHT - MARGIN.top - MARGIN.bottom;
    const y = (value) => HEIGHT - MARGIN.bottom - (value / steps.at(-1)) * span;
    this.#drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.#drawing.setAttribute("width", width);
    this.#drawing.replaceChildren(
      ...this.#levels(steps, y, width),
      ...this.#minutes(x, width),
      ...lines.map((points, place) => svg("path", { class: `line s${place + 1}`, d: path(points, x, y) })),
      ...this.#marks(x, y),
    );
    this.#tell();
  }

  #levels(steps, y, width) {
    return steps.flatMap((value) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick end", x: MARGIN.left - 6, y: y(value) + 3.5 }, this.#axis(value)),
    ]);
  }

  #minutes(x, width) {
    const end = this.#points.at(-1)?.at ?? Date.now();
    const step = width < NARROW ? 5 : 2;
    const marks = [];
    for (let minutes = 0; minutes * MINUTE_MS < SPAN_MS; minutes += step) {
      const label = minutes === 0 ? "now" : `−${minutes} min`;
      const kind = minutes === 0 ? "tick end" : "tick middle";
      marks.push(svg("text", { class: kind, x: x(end - minutes * MINUTE_MS), y: HEIGHT - 6 }, label));
    }
    return marks;
  }

  /** A line at the chosen time, with a dot on each series. */
  #marks(x, y) {
    const point = this.#points[this.#chosen];
    if (point === undefined) {
      return [];
    }
    const at = x(point.at);
    const dots = this.#series.map(({ name }, place) => {
      const value = point.values[name];
      return value === undefined || value === null
        ? null
        : svg("circle", { class: `dot s${place + 1}`, cx: at, cy: y(value), r: 3.5 });
    });
    const line = { class: "cross", x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom };
    return [svg("line", line), ...dots.filter(Boolean)];
  }

  /** The values at the chosen time, or the latest, as text. */
  #tell() {
    const point = this.#points[this.#chosen] ?? this.#points.at(-1);
    const value = (name) => this.#format(point?.values[name]);
    this.#time.textContent =
      this.#chosen === null || !point ? "" : new Date(point.at).toLocaleTimeString("en-GB");
    this.#legend.replaceChildren(
      ...this.#series.map(({ name, label }, place) =>
        h(
          "li",
          {},
          h("span", { class: `key s${place + 1}`, "aria-hidden": "true" }),
          label,
          h("b", {}, value(name)),
        ),
      ),
    );
    const said = this.#series.map(({ name, label }) => `${label} ${value(name)}`).join(", ");
    const when = this.#time.textContent || "now";
    this.#frame.setAttribute("aria-label", `${this.#title}, ${when}: ${said}. Arrow keys move in time.`);
  }

  #point(event) {
    const box = this.#frame.getBoundingClientRect();
    const end = this.#points.at(-1)?.at ?? 0;
    const share = (box.right - MARGIN.right - event.clientX) / (box.width - MARGIN.left - MARGIN.right);
    const place = nearest(this.#points, end - share * SPAN_MS);
    this.#choose(place < 0 ? null : place);
  }

  #key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || this.#points.length === 0) {
      return;
    }
    event.preventDefault();
    const last = this.#points.length - 1;
    this.#choose(Math.min(last, Math.max(0, (this.#chosen ?? last) + step)));
  }

  #choose(place) {
    this.#chosen = place;
    this.#draw();
  }
}
