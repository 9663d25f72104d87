// Texts as they are shown. Whatever a table holds, what is shown of it can't steer the page: it becomes text nodes only,
// and characters that can't be seen are written out.

const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;

export function visible(text) {
  return String(text).replace(UNSEEN, (one) => {
    const code = one.codePointAt(0);
    if (code === 9) return "\\t";
    if (code === 10) return "\\n";
    if (code === 13) return "\\r";
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

const whole = new Intl.NumberFormat("en-US");
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const counted = (value, what) =>
  `${number(value)} ${value === 1 ? what : what.endsWith("y") ? `${what.slice(0, -1)}ies` : `${what}s`}`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function share(part, all) {
  if (!all || !part) return "0 %";
  const percent = (100 * part) / all;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  if (percent > 99.9 && part !== all) return "> 99.9 %";
  return `${percent < 10 ? percent.toFixed(1).replace(/\.0$/, "") : Math.round(percent)} %`;
}

export function ago(iso) {
  const seconds = Math.round((Date.now() - Date.parse(iso)) / 1000);
  if (!Number.isFinite(seconds)) return visible(iso);
  if (seconds < -5) return clock(iso);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds - (seconds % 5)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 30 * 86400) return `${Math.floor(seconds / 86400)} d ago`;
  return iso.slice(0, 10);
}

export const clock = (iso) => `${iso.slice(0, 10)} ${iso.slice(11, 19)}`;
export const short = (name) => {
  const [version, id = ""] = String(name).split("-");
  return /^\d{20}$/.test(version) ? `${Number(version)}-${id.slice(0, 8)}${id.includes("@") ? id.slice(id.indexOf("@")) : ""}` : name;
};
