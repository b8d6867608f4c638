/** Moving the messages of a queue to another, a piece at a time, with its progress. */

import { announce } from "./announce.js";
import { at, get, post } from "./api.js";
import { opened } from "./dialog.js";
import { freshId, h } from "./dom.js";
import { counted } from "./format.js";
import { Form } from "./form.js";

const PIECE = 200;

/** Ask where to, and move; resolves when the dialog is closed. */
export async function moveMessages(vhost, name, ready) {
  const queues = await get(at`/queues/${vhost}`, { columns: "name" });
  const names = queues.map((queue) => queue.name).filter((other) => other !== name);
  const form = new Form([
    { name: "destination", label: "To the queue", kind: "select", options: names },
    { name: "count", label: "At most", kind: "number", min: 1, value: ready, required: true },
    {
      name: "filter",
      label: "Only those with",
      hint: "An expression, such as /customer = 17; without one all messages that are ready.",
    },
  ]);
  const heading = freshId("dialog");
  const error = h("p", { class: "error", role: "alert" });
  const progress = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Messages moved" });
  const told = h("p", { role: "status" });
  const submit = h("button", { type: "submit", class: "primary", disabled: names.length === 0 }, "Move");
  const cancel = h("button", { type: "button" }, "Close");
  const body = h(
    "form",
    {},
    h("h2", { id: heading }, `Move messages of ${name}`),
    h("p", { class: "text" }, "Each leaves this queue only once it is safe in the other. Close to stop."),
    form.element,
    progress,
    told,
    error,
    h("div", { class: "buttons" }, cancel, submit),
  );
  const dialog = h("dialog", { "aria-labelledby": heading }, body);
  const stopping = new AbortController();
  dialog.addEventListener("close", () => stopping.abort());
  return opened(dialog, (close) => {
    cancel.addEventListener("click", () => close(true));
    body.addEventListener("submit", async (event) => {
      event.preventDefault();
      error.textContent = "";
      submit.disabled = true;
      progress.hidden = false;
      try {
        const onMoved = (moved, wanted) => {
          progress.value = moved / wanted;
          told.textContent = `${counted(moved, "message")} moved`;
        };
        announce(await pieces(vhost, name, form.values(), stopping.signal, onMoved));
      } catch (failure) {
        error.textContent = failure.name === "AbortError" ? "" : failure.message;
      } finally {
        submit.disabled = false;
      }
    });
  });
}

/** What was moved, in words. Throws an Error when the destination takes no more. */
async function pieces(vhost, name, { destination, count, filter }, signal, onMoved) {
  let moved = 0;
  let last = { drained: false };
  let from = {};
  while (moved < count && !last.drained && !signal.aborted) {
    const named = filter ? { filter } : {};
    const asked = { destination, count: Math.min(PIECE, count - moved), ...named, ...from };
    last = await post(at`/queues/${vhost}/${name}/move`, asked);
    moved += last.moved;
    from = last.next ? { first: last.next, last: last.last } : {};
    onMoved(moved, last.drained ? moved : count);
    if (last.refused) {
      throw new Error(`${counted(moved, "message")} moved; then ${destination} took no more: is it full?`);
    }
  }
  return `${counted(moved, "message")} moved to ${destination}`;
}
