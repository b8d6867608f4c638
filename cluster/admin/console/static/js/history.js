/** What figures were, for as long as this tab has looked at them. */

export const SPAN_MS = 10 * 60 * 1000;

const kept = new Map();

/** Add `values` by name to the history under `key`, and return it: [{ at, values }], oldest first. */
export function remember(key, values, at = Date.now()) {
  const points = kept.get(key) ?? [];
  points.push({ at, values });
  while (points[0].at < at - SPAN_MS) {
    points.shift();
  }
  kept.set(key, points);
  return points;
}

/** Forget everything: another user may see other things. */
export function clear() {
  kept.clear();
}
