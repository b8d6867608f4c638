/**
 * Makes elements. Text becomes text nodes and values become attributes: nothing that a client named
 * its queue is ever read as HTML, and the page's policy (Trusted Types) forbids every other way.
 */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; `children` are nodes, text or lists of them, and nothing for null or false. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A fragment of children. */
export function fragment(...children) {
  const made = document.createDocumentFragment();
  append(made, children);
  return made;
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value);
  }
  append(element, children);
  return element;
}

function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    return;
  }
  if (name.startsWith("on")) {
    element.addEventListener(name.slice(2).toLowerCase(), value);
  } else if (name === "value" && "value" in element) {
    element.value = value;
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) {
      append(parent, child);
    } else if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
}

let lastId = 0;

/** An id that no other element has. */
export function freshId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
