/** Light or dark: as the system says, until the user says otherwise. */

const KEY = "quorate.theme";

export const THEMES = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export function theme() {
  return localStorage.getItem(KEY) ?? "system";
}

export function choose(name) {
  localStorage.setItem(KEY, name);
  apply();
}

/** Also called before anything is shown, so that nothing flashes. */
export function apply() {
  const chosen = theme();
  if (chosen === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = chosen;
  }
}
