/** Every page: where it is, what it is called, whose tag it takes, and what makes it. */

import { overview } from "./pages/overview.js";
import { queues } from "./pages/queues.js";

/** Those with a `label` are in the navigation, in this order. */
export const ROUTES = [
  { pattern: "overview", label: "Overview", tag: "management", title: () => "Overview", view: overview },
  { pattern: "queues", label: "Queues", tag: "management", title: () => "Queues", view: queues },
];
