/** Axes of plots. Pure. */

/** Below this an axis would be all fractions. */
const LEAST_TOP = 4;

/** Round values from 0 to at least `top`, about `wanted` of them: 0, 20, 40, 60. */
export function ticks(top, wanted = 4) {
  const rough = Math.max(top, LEAST_TOP) / wanted;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * magnitude).find((one) => one >= rough);
  const count = Math.max(1, Math.ceil(Math.max(top, LEAST_TOP) / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, place) => place * step);
}

/** The same for octets, whose units are powers of 1024: 0, 1 KiB, 2 KiB, 3 KiB. */
export function octetTicks(top, wanted = 4) {
  const rough = Math.max(top, LEAST_TOP) / wanted;
  const step = 2 ** Math.ceil(Math.log2(rough));
  const count = Math.max(1, Math.ceil(Math.max(top, LEAST_TOP) / step));
  return Array.from({ length: count + 1 }, (_, place) => place * step);
}

/** The points of a line as an SVG path; a missing value is a gap. */
export function path(points, x, y) {
  let drawing = false;
  let text = "";
  for (const { at, value } of points) {
    if (value === null || value === undefined) {
      drawing = false;
      continue;
    }
    text += `${drawing ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    drawing = true;
  }
  return text;
}

/** Where in points, which are sorted by `at`, the one nearest to a time is; -1 where there is none. */
export function nearest(points, at) {
  let best = -1;
  for (let place = 0; place < points.length; place += 1) {
    if (best < 0 || Math.abs(points[place].at - at) < Math.abs(points[best].at - at)) {
      best = place;
    }
  }
  return best;
}
