/** The node's HTTP API: one function for each method, and the error that they throw. */

import { authorization } from "./session.js";

const PREFIX = "/api";

/** What the node refused, in its own words; `status` 0 where the node did not answer at all. */
export class ApiError extends Error {
  constructor(status, message, { signedOut = false } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.signedOut = signedOut;
  }
}

/** A path of names, each escaped: at`/queues/${vhost}/${name}`. */
export function at(strings, ...names) {
  return strings.reduce((path, text, place) => path + encodeURIComponent(names[place - 1]) + text);
}

export const get = (path, query, options) => call("GET", path, { query, ...options });
export const put = (path, body) => call("PUT", path, { body });
export const post = (path, body, options) => call("POST", path, { body, ...options });
export const del = (path, options) => call("DELETE", path, options);

/** The JSON of the answer, null where there is none. Throws ApiError, and AbortError when `signal` says so. */
export async function call(method, path, options = {}) {
  const { query, body, headers, signal, credentials = authorization() } = options;
  const { response, text } = await exchange(url(path, query), {
    method,
    signal,
    headers: { ...(credentials ? { Authorization: credentials } : {}), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    // The browser neither adds credentials of its own nor asks for any.
    credentials: "omit",
    cache: "no-store",
  });
  if (!response.ok) {
    throw refusal(response, text);
  }
  return text === "" ? null : JSON.parse(text);
}

/** The whole answer: a connection may break in the middle of it. */
async function exchange(address, request) {
  try {
    const response = await fetch(address, request);
    return { response, text: await response.text() };
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiError(0, "This node does not answer. It may be down, or the network to it.");
  }
}

function url(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== "");
  return PREFIX + path + (given.length ? `?${new URLSearchParams(given)}` : "");
}

function refusal(response, text) {
  const signedOut = response.status === 401 && response.headers.has("WWW-Authenticate");
  return new ApiError(response.status, reasonIn(text) || `${response.status} ${response.statusText}`, {
    signedOut,
  });
}

/** The API says `reason`, which may be a list or an object, and `error`. */
function reasonIn(text) {
  try {
    const { reason, error } = JSON.parse(text);
    return typeof reason === "string" ? reason : JSON.stringify(reason ?? error);
  } catch {
    return text.slice(0, 300);
  }
}
