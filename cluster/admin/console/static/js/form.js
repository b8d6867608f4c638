/** Forms made of descriptions of their fields. */

import { freshId, h } from "./dom.js";

/**
 * `fields`: { name, label, kind, value, options, hint, required, min }, where `kind` is text (the
 * default), password, number, check, select, area or json, and `options` are values or [value, label].
 */
export class Form {
  #fields;
  #controls = new Map();

  constructor(fields) {
    this.#fields = fields.filter(Boolean);
    this.element = h(
      "div",
      { class: "fields" },
      this.#fields.map((field) => this.#field(field)),
    );
  }

  control(name) {
    return this.#controls.get(name);
  }

  /** Values by name: numbers as numbers or null, JSON as objects. Throws an Error that says which is wrong. */
  values() {
    return Object.fromEntries(this.#fields.map((field) => [field.name, this.#value(field)]));
  }

  #field(field) {
    const id = freshId("field");
    const hint = field.hint ? h("p", { id: `${id}-hint`, class: "hint" }, field.hint) : null;
    const control = this.#control(field, id, hint?.id);
    this.#controls.set(field.name, control);
    const label = h("label", { for: id }, field.label);
    return field.kind === "check"
      ? h("div", { class: "field check" }, control, label, hint)
      : h("div", { class: "field" }, label, control, hint);
  }

  #control(field, id, hintId) {
    const shared = { id, name: field.name, required: field.required, "aria-describedby": hintId };
    switch (field.kind) {
      case "select":
        return h(
          "select",
          shared,
          field.options.map((option) => choice(option, field.value)),
        );
      case "check":
        return h("input", { ...shared, type: "checkbox", checked: field.value });
      case "area":
      case "json":
        return h("textarea", {
          ...shared,
          rows: field.rows ?? 4,
          spellcheck: "false",
          value: field.value ?? "",
        });
      default:
        return h("input", {
          ...shared,
          type: field.kind ?? "text",
          min: field.min,
          autocomplete: field.autocomplete ?? "off",
          spellcheck: "false",
          value: field.value ?? "",
        });
    }
  }

  #value(field) {
    const control = this.#controls.get(field.name);
    switch (field.kind) {
      case "check":
        return control.checked;
      case "number":
        return control.value === "" ? null : Number(control.value);
      case "json":
        return objectIn(control.value, field.label);
      default:
        return control.value;
    }
  }
}

function choice(option, chosen) {
  const [value, label] = Array.isArray(option) ? option : [option, option];
  return h("option", { value, selected: value === chosen }, label);
}

/** A JSON object; empty text is an empty one. */
function objectIn(text, label) {
  let value;
  try {
    value = text.trim() === "" ? {} : JSON.parse(text);
  } catch (error) {
    throw new Error(`${label}: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error(`${label}: must be a JSON object, such as {"x-max-length": 1000}`);
  }
  return value;
}
