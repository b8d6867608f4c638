/** Moving messages, publishing them anew and bringing them back, a piece at a time, with the progress. */

import { announce } from "./announce.js";
import { at, get, post } from "./api.js";
import { opened } from "./dialog.js";
import { freshId, h } from "./dom.js";
import { counted } from "./format.js";
import { Form } from "./form.js";

const PIECE = 200;
const FILTER = {
  name: "filter",
  label: "Only those with",
  hint: "An expression, such as /customer = 17; without one all messages.",
};

/** Ask where to, and move; resolves when the dialog is closed. */
export async function moveMessages(vhost, name, ready) {
  const queues = await get(at`/queues/${vhost}`, { columns: "name" });
  const names = queues.map((queue) => queue.name).filter((other) => other !== name);
  return inPieces({
    title: `Move messages of ${name}`,
    text: "Each leaves this queue only once it is safe in the other. Close to stop.",
    fields: [
      { name: "destination", label: "To the queue", kind: "select", options: names },
      atMost(ready),
      FILTER,
    ],
    disabled: names.length === 0,
    verb: "Move",
    done: "moved",
    path: at`/queues/${vhost}/${name}/move`,
    answer: "moved",
    full: ({ destination }) => `${destination} took no more: is it full?`,
    last: ({ destination }) => ` to ${destination}`,
  });
}

/** Ask which, and publish them anew; resolves when the dialog is closed. */
export function replayMessages(vhost, name, ready) {
  return inPieces({
    title: `Publish messages of ${name} anew`,
    text: "Dead letters go where they were published first. Close to stop.",
    fields: [
      atMost(ready),
      FILTER,
      { name: "exchange", label: "To the exchange", hint: "Without one that of the first publish." },
      { name: "routing_key", label: "Routing key", hint: "Without one that of the first publish." },
    ],
    verb: "Publish",
    done: "published",
    path: at`/queues/${vhost}/${name}/replay`,
    answer: "replayed",
    full: () => "a queue took no more: is it full?",
    last: (_, unrouted) => (unrouted ? `; ${counted(unrouted, "message")} stayed: no queue took them` : ""),
  });
}

/** Ask which, and bring messages back that have left the queue; resolves when the dialog is closed. */
export function bringBack(vhost, name) {
  return inPieces({
    title: `Bring messages back to ${name}`,
    text: "Messages that have left the queue, as long as the stream under the queue has them. Close to stop.",
    fields: [
      atMost(1000),
      FILTER,
      { name: "since", label: "Published since", hint: "A time (2026-01-31T12:00:00), or an age (90s, 2h)." },
      { name: "until", label: "Published before", hint: "A time or an age, too." },
    ],
    verb: "Bring back",
    done: "brought back",
    path: at`/queues/${vhost}/${name}/undo`,
    answer: "undone",
    full: () => "the queue took no more: is it full?",
    last: () => "",
  });
}

function atMost(value) {
  return { name: "count", label: "At most", kind: "number", min: 1, value, required: true };
}

/**
 * A dialog that asks with `fields`, and has messages changed by posts to `path`, whose answers count them
 * under the name `answer`.
 */
function inPieces(task) {
  const form = new Form(task.fields);
  const heading = freshId("dialog");
  const error = h("p", { class: "error", role: "alert" });
  const label = `Messages ${task.done}`;
  const progress = h("progress", { max: 1, value: 0, hidden: true, "aria-label": label });
  const told = h("p", { role: "status" });
  const disabled = task.disabled === true;
  const submit = h("button", { type: "submit", class: "primary", disabled }, task.verb);
  const cancel = h("button", { type: "button" }, "Close");
  const body = h(
    "form",
    {},
    h("h2", { id: heading }, task.title),
    h("p", { class: "text" }, task.text),
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
        const onDone = (total, wanted) => {
          progress.value = wanted ? total / wanted : 1;
          told.textContent = `${counted(total, "message")} ${task.done}`;
        };
        announce(await pieces(task, form.values(), stopping.signal, onDone));
      } catch (failure) {
        error.textContent = failure.name === "AbortError" ? "" : failure.message;
      } finally {
        submit.disabled = false;
      }
    });
  });
}

/** What was done, in words. Throws an Error when a queue takes no more. */
async function pieces(task, values, signal, onDone) {
  const { count, ...others } = values;
  const named = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== ""));
  let total = 0;
  let unrouted = 0;
  let last = { drained: false };
  let from = {};
  while (total < count && !last.drained && !signal.aborted) {
    last = await post(task.path, { count: Math.min(PIECE, count - total), ...named, ...from });
    total += last[task.answer];
    unrouted += last.unrouted ?? 0;
    from = last.next ? { first: last.next, last: last.last } : {};
    onDone(total, last.drained ? total : count);
    if (last.refused) {
      throw new Error(`${counted(total, "message")} ${task.done}; then ${task.full(values)}`);
    }
  }
  return `${counted(total, "message")} ${task.done}${task.last(values, unrouted)}`;
}
