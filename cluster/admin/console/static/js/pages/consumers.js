/** All consumers. */

import { at } from "../api.js";
import { consumerColumns, consumerKey } from "../consumers.js";
import { Listing } from "../listing.js";

export function consumers(context) {
  return new Listing(context, {
    path: (vhost) => (vhost ? at`/consumers/${vhost}` : "/consumers"),
    caption: "Consumers",
    columns: consumerColumns(),
    key: consumerKey,
    text: (one) => `${one.consumer_tag} ${one.queue.name} ${one.channel_details.user}`,
    paged: false,
    vhosts: true,
    empty: "Nobody consumes.",
  });
}
