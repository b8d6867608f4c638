/** The page where a user signs in. */

import { ApiError, get } from "./api.js";
import { h } from "./dom.js";
import { Form } from "./form.js";
import { basic, begin } from "./session.js";

/** `onDone` is called when somebody is signed in; `reason` says why the page is shown. */
export function signIn(onDone, reason = "") {
  const form = new Form([
    { name: "name", label: "User", autocomplete: "username", required: true },
    {
      name: "password",
      label: "Password",
      kind: "password",
      autocomplete: "current-password",
      required: true,
    },
  ]);
  const error = h("p", { class: "error", role: "alert" }, reason);
  const submit = h("button", { type: "submit", class: "primary" }, "Sign in");
  const element = h(
    "main",
    { id: "main", class: "sign-in", tabindex: "-1" },
    h(
      "form",
      {
        onSubmit: async (event) => {
          event.preventDefault();
          submit.disabled = true;
          error.textContent = await attempt(form.values(), onDone);
          submit.disabled = false;
        },
      },
      h("h1", {}, h("img", { src: "icon.svg", alt: "", width: 30, height: 30 }), "quorate"),
      form.element,
      error,
      submit,
    ),
  );
  return { element, focus: () => form.control("name").focus() };
}

/** What went wrong, or nothing. */
async function attempt({ name, password }, onDone) {
  const credentials = basic(name, password);
  try {
    begin(credentials, await get("/whoami", {}, { credentials }));
  } catch (error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    return error.signedOut ? "Login failed: no such user, or another password." : error.message;
  }
  onDone();
  return "";
}
