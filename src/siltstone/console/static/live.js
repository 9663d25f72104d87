// Asking the server, and asking again: what has not changed costs nothing to show.

export class Refused extends Error {
  constructor(error) {
    super(error.message);
    this.error = error;
  }
}

const GONE = { kind: "unavailable", message: "The console does not answer.", hint: "It may have been ended: start it again." };

export async function ask(call, params = {}, { signal, tag } = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  // The path of a table may be empty, where the root is one.
  if (params.table === "") given.push(["table", ""]);
  let answer;
  try {
    answer = await fetch(`/api/${call}?${new URLSearchParams(given)}`.replace(/\?$/, ""), {
      signal, headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", credentials: "same-origin",
    });
  } catch (failed) {
    if (signal?.aborted) throw failed;
    throw new Refused(GONE);
  }
  if (answer.status === 304) return { same: true };
  const document = await answer.json().catch(() => {
    throw new Refused(GONE);
  });
  if (document.error !== undefined && document.error !== null && !answer.ok) throw new Refused(document.error);
  return { document, tag: answer.headers.get("ETag") };
}

// Asks again and again while the page is seen; `params` may change between two times.
export class Poll {
  constructor(call, params, { every, got, failed, state }) {
    Object.assign(this, { call, params, every, got, failed, state });
    this.tag = null;
    this.stopped = false;
    this.wake = () => {
      if (!document.hidden) this.now();
    };
    document.addEventListener("visibilitychange", this.wake);
    this.now();
  }

  // At once, whatever was known before where `anew`.
  now({ anew = false } = {}) {
    if (this.stopped) return;
    if (anew) this.tag = null;
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = new AbortController();
    this.turn(this.abort.signal);
  }

  async turn(signal) {
    const started = performance.now();
    try {
      const params = this.params();
      const found = await ask(this.call, params, { signal, tag: this.tag });
      if (signal.aborted) return;
      this.state?.(true);
      if (!found.same) {
        this.tag = found.tag;
        this.got(found.document);
      }
    } catch (failed) {
      if (signal.aborted) return;
      const error = failed instanceof Refused ? failed.error : { kind: "internal", message: String(failed), hint: "" };
      if (!(failed instanceof Refused)) console.error(failed);
      this.tag = null;
      this.state?.(error !== GONE);
      if (error !== GONE) this.failed(error);
    }
    // A store that answers slowly is asked less often.
    const pause = Math.max(this.every, 10 * (performance.now() - started));
    this.timer = setTimeout(() => {
      if (!document.hidden) this.now();
    }, pause);
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.abort?.abort();
    document.removeEventListener("visibilitychange", this.wake);
  }
}
