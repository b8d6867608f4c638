/** Closing connections. */

import { at, del } from "./api.js";
import { ask } from "./dialog.js";

/** Ask for a reason, and close; resolves with whether that was done. */
export function closeConnection(name) {
  return ask({
    title: "Close the connection",
    text: `${name}: what its client has not acknowledged goes back to its queues. Most clients connect again.`,
    confirm: "Close the connection",
    danger: true,
    fields: [{ name: "reason", label: "Reason, as the client is told it", value: "Closed by an operator" }],
    run: ({ reason }) => del(at`/connections/${name}`, { headers: { "X-Reason": ascii(reason) } }),
    done: "The connection is closed",
  });
}

/** Headers are no place for other characters. */
function ascii(text) {
  return text.replace(/[^\x20-\x7e]/g, "?");
}
