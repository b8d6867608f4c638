/** All channels. */

import { at } from "../api.js";
import { channelColumns } from "../channels.js";
import { Listing } from "../listing.js";

export function channels(context) {
  return new Listing(context, {
    path: (vhost) => (vhost ? at`/vhosts/${vhost}/channels` : "/channels"),
    caption: "Channels",
    columns: channelColumns(),
    key: ({ name }) => name,
    vhosts: true,
    empty: "No open channels.",
  });
}
