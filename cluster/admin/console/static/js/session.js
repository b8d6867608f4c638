/**
 * Who is signed in.
 *
 * The credentials are in this tab's session storage: they are gone with the tab, pages of other
 * origins cannot read them, and the browser never sends them by itself, as it would a cookie or the
 * password of its own dialog. So no other page can act in the user's name. Scripts of this origin
 * could read them; the content security policy lets none run but the console's own.
 */

const KEY = "quorate.session";

/** The value of the Authorization header (RFC 7617); null while nobody is signed in. */
export function authorization() {
  return read()?.authorization ?? null;
}

/** What the node said of the user: `name` and `tags`. */
export function user() {
  return read()?.user ?? { name: "", tags: [] };
}

export function basic(name, password) {
  const octets = new TextEncoder().encode(`${name}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...octets))}`;
}

export function begin(header, who) {
  const kept = { authorization: header, user: { name: who.name, tags: who.tags } };
  sessionStorage.setItem(KEY, JSON.stringify(kept));
}

export function end() {
  sessionStorage.removeItem(KEY);
}

function read() {
  const text = sessionStorage.getItem(KEY);
  return text === null ? null : JSON.parse(text);
}
