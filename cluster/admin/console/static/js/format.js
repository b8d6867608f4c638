/** Figures as people read them. Pure. */

const WHOLE = new Intl.NumberFormat("en");
const ONE_DIGIT = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const NOTHING = "–";

/** 12,345; a dash where there is no number. */
export function count(value) {
  return isNumber(value) ? WHOLE.format(value) : NOTHING;
}

/** 12.3K, for axes. */
export function compact(value) {
  return isNumber(value) ? COMPACT.format(value) : NOTHING;
}

/** 0.4/s, 310/s */
export function rate(value) {
  if (!isNumber(value)) {
    return NOTHING;
  }
  const small = Math.abs(value) < 10 && value !== 0;
  return `${small ? ONE_DIGIT.format(value) : WHOLE.format(Math.round(value))}/s`;
}

/** 1.5 GiB */
export function octets(value) {
  if (!isNumber(value)) {
    return NOTHING;
  }
  let unit = 0;
  let size = value;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? WHOLE.format(Math.round(size)) : ONE_DIGIT.format(size)} ${UNITS[unit]}`;
}

/** Milliseconds as 3 d 4 h, 5 min 2 s. */
export function duration(milliseconds) {
  if (!isNumber(milliseconds)) {
    return NOTHING;
  }
  const seconds = Math.floor(milliseconds / 1000);
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return first < 0
    ? "0 s"
    : parts
        .slice(first, first + 2)
        .map((part) => part.join(" "))
        .join(" ");
}

/** 68% */
export function share(part, whole) {
  return isNumber(part) && whole > 0 ? `${Math.round((100 * part) / whole)}%` : NOTHING;
}

/** One message, 2 messages. */
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/** A local date and time of milliseconds since 1970. */
export function moment(milliseconds) {
  return isNumber(milliseconds) ? new Date(milliseconds).toLocaleString("en-GB") : NOTHING;
}

/** The rate of a counter in an answer of the API: `stats.publish_details.rate`. */
export function rateOf(stats, name) {
  return stats?.[`${name}_details`]?.rate;
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
