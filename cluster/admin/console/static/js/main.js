/** Where the console begins. */

import { App } from "./app.js";
import { apply } from "./theme.js";

apply();
// A skip link that changed the address would change the page.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
});
new App(document.getElementById("app")).start();
