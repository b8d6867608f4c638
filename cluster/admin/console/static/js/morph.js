/**
 * Makes one tree of elements look like another while it keeps the elements that are there: what has
 * the focus, is selected or is scrolled stays so while figures change around it.
 *
 * Children are told apart by `data-key` where they have one, otherwise by their place. An element
 * with `data-own` looks after its own contents, and is kept as it is.
 */

export function morph(target, source) {
  if (target.isEqualNode(source)) {
    return;
  }
  const wanted = [...source.childNodes];
  const keyed = byKey(target);
  let place = target.firstChild;
  for (const child of wanted) {
    const match = matching(place, child, keyed);
    if (match === null) {
      target.insertBefore(child, place);
      continue;
    }
    if (match === place) {
      place = place.nextSibling;
    } else {
      target.insertBefore(match, place);
    }
    update(match, child);
  }
  while (place !== null) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function byKey(parent) {
  const found = new Map();
  for (const child of parent.children) {
    if (child.dataset.key !== undefined) {
      found.set(child.dataset.key, child);
    }
  }
  return found;
}

function matching(place, child, keyed) {
  const key = child.nodeType === Node.ELEMENT_NODE ? child.dataset.key : undefined;
  if (key !== undefined) {
    const known = keyed.get(key) ?? null;
    return known !== null && isAlike(known, child) ? known : null;
  }
  const fits = place !== null && isAlike(place, child) && place.dataset?.key === undefined;
  return fits ? place : null;
}

function isAlike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}

function update(target, source) {
  if (target.nodeType !== Node.ELEMENT_NODE) {
    if (target.nodeValue !== source.nodeValue) {
      target.nodeValue = source.nodeValue;
    }
    return;
  }
  if (target.dataset.own === undefined) {
    updateAttributes(target, source);
    morph(target, source);
  }
}

function updateAttributes(target, source) {
  for (const { name } of [...target.attributes]) {
    // Whether details are open is for the reader to say.
    if (!source.hasAttribute(name) && name !== "open") {
      target.removeAttribute(name);
    }
  }
  for (const { name, value } of source.attributes) {
    if (target.getAttribute(name) !== value) {
      target.setAttribute(name, value);
    }
  }
}
