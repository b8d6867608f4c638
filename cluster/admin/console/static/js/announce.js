/** Tells users of screen readers what has changed, in the page's one live region. */

const LIVE_INTERVAL_MS = 30_000;

let lastFigures = 0;

/** The outcome of something that the user did. */
export function announce(text) {
  const region = document.getElementById("announcer");
  // The same text twice is news twice: an empty region in between has it read again.
  region.textContent = "";
  requestAnimationFrame(() => {
    region.textContent = text;
  });
}

/** Figures that change all the time: said twice a minute at most, so that they talk over nothing. */
export function announceFigures(text, now = Date.now()) {
  if (now - lastFigures >= LIVE_INTERVAL_MS) {
    lastFigures = now;
    announce(text);
  }
}
