/** Places in the console: `#/queues/{vhost}/{name}?sort=…`. Pure. */

/** The segments of a hash, decoded, and its parameters; null for one that is no place. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  try {
    const segments = path.split("/").slice(1).map(decodeURIComponent);
    return { segments, query: new URLSearchParams(query) };
  } catch {
    return null;
  }
}

/** A hash of names: to("queues", vhost, name). */
export function to(...names) {
  return "#/" + names.map(encodeURIComponent).join("/");
}

/** The first of `routes` whose pattern fits: { route, names }; null when none does. */
export function match(routes, segments) {
  for (const route of routes) {
    const names = fitting(route.pattern.split("/"), segments);
    if (names !== null) {
      return { route, names };
    }
  }
  return null;
}

function fitting(pattern, segments) {
  if (pattern.length !== segments.length) {
    return null;
  }
  const names = {};
  for (const [place, part] of pattern.entries()) {
    if (part.startsWith(":")) {
      names[part.slice(1)] = segments[place];
    } else if (part !== segments[place]) {
      return null;
    }
  }
  return names;
}
