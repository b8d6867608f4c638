/** What the tags of the user allow. The node decides; this only spares the user what it would refuse. */

import { user } from "./session.js";

const IMPLIED = {
  administrator: ["administrator", "monitoring", "policymaker", "management"],
  monitoring: ["monitoring", "management"],
  policymaker: ["policymaker", "management"],
  management: ["management"],
};

/** Whether the user has the tag, or one that implies it. */
export function has(tag) {
  return user().tags.some((own) => (IMPLIED[own] ?? []).includes(tag));
}

export const administers = () => has("administrator");
export const monitors = () => has("monitoring");
