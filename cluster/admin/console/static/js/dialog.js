/** Modal dialogs: the browser keeps the focus inside, closes them with Escape and gives the focus back. */

import { announce } from "./announce.js";
import { freshId, h } from "./dom.js";
import { Form } from "./form.js";

/**
 * Ask for values, or for a confirmation, and then do it: `run(values)`, whose error is shown in the
 * dialog, which stays. `done` is said to screen readers. Resolves with whether it was done.
 */
export function ask({ title, text, fields = [], confirm, danger = false, run, done }) {
  const form = new Form(fields);
  const heading = freshId("dialog");
  const error = h("p", { class: "error", role: "alert" });
  const submit = h("button", { type: "submit", class: danger ? "danger" : "primary" }, confirm);
  const cancel = h("button", { type: "button", autofocus: danger }, "Cancel");
  const body = h(
    "form",
    { novalidate: false },
    h("h2", { id: heading }, title),
    text && h("div", { class: "text" }, text),
    form.element,
    error,
    h("div", { class: "buttons" }, cancel, submit),
  );
  const dialog = h("dialog", { "aria-labelledby": heading }, body);
  return opened(dialog, (close) => {
    cancel.addEventListener("click", () => close(false));
    body.addEventListener("submit", async (event) => {
      event.preventDefault();
      error.textContent = "";
      submit.disabled = true;
      try {
        await run(form.values());
        announce(done ?? `${title}: done`);
        close(true);
      } catch (failure) {
        error.textContent = failure.message;
      } finally {
        submit.disabled = false;
      }
    });
  });
}

/** Show a dialog until `close(value)` is called or it is dismissed. */
export function opened(dialog, start) {
  return new Promise((resolve) => {
    let value = false;
    start((result) => {
      value = result;
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(value);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
