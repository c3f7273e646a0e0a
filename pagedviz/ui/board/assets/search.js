// The search over all events, and what it says of a page, a sequence or a token without a pointer.

import { clear, h, setText } from "./dom.js";
import { Panel } from "./panels.js";
import { askedToken, pageOfToken, tokenWords } from "./token_places.js";

const MOST_FOUND = 100;
const EXAMPLES = "For example: is preempted · a word of the story · p7 · seq:1 · token 20 · seq:1 token 20";

export class Search extends Panel {
  constructor(run, act) {
    super("Search", "search-panel");
    this.run = run;
    this.act = act;
    this.query = h("input", { type: "text", "aria-label": "Search", placeholder: "What are you looking for?", data: { testid: "query" }, on: { input: () => this.#soon() } });
    this.status = h("p", { role: "status" });
    this.list = h("ol", { class: "found" });
    this.body.append(this.query, this.status, this.list);
    setText(this.status, EXAMPLES);
  }

  open() {
    super.open();
    this.query.select();
  }

  #soon() {
    clearTimeout(this.timer);
    this.asked = undefined;
    clear(this.list);
    this.timer = setTimeout(() => this.#find(), 120);
  }

  async #find() {
    const token = (this.asked = {});
    clear(this.list);
    const query = this.query.value.trim();
    if (!query) return setText(this.status, EXAMPLES);
    const isAnswered = this.#offerToWatch(query) || this.#tellToken(query);
    const fits = matcher(query);
    let found = 0;
    for (let step = 0; step < this.run.numSteps; step++) {
      if (this.run.chunkOf(step) === undefined) {
        setText(this.status, `${found} found in steps 0 to ${step - 1}, going on`);
        await this.act.need(this.run.chunkNumber(step));
      } else if (step % 200 === 199) await new Promise((go) => setTimeout(go));
      if (this.asked !== token) return undefined;
      for (let number = 1; number <= this.run.numEvents(step) && found < MOST_FOUND; number++) {
        const moment = { step, event: number };
        const words = [this.run.line(step, number), this.run.sentence(moment)].find(fits);
        if (words === undefined) continue;
        found++;
        this.#add(moment, words);
      }
      if (found >= MOST_FOUND) break;
    }
    const more = found >= MOST_FOUND ? `the first ${MOST_FOUND} are listed` : "";
    const none = isAnswered ? "No event names it" : `Nothing found for “${query}”`;
    return setText(this.status, found ? `${found} found ${more}` : none);
  }

  // The way to watch a page or a sequence without a pointer.
  #offerToWatch(query) {
    const [, kind, number] = /^(p|seq:)(\d+)(?:\.\d+)?$/i.exec(query) ?? [];
    if (kind === undefined) return false;
    const id = Number(number);
    const thing = kind.toLowerCase() === "p" ? { page: id } : { sequence: id };
    const { num_pages: numPages, lanes } = this.run.overview;
    if (thing.page === undefined ? !lanes.some(([seq]) => seq === id) : id >= numPages) return false;
    const watch = () => {
      this.close();
      this.act.watch(thing);
    };
    const name = thing.page === undefined ? `seq:${id}` : `p${id}`;
    const words = `Watch ${name}, or stop: “until” can run to its next change`;
    this.list.append(h("li", {}, h("button", { type: "button", data: { testid: "watch" }, on: { click: watch } }, h("b", {}, "◎"), ` ${words}`)));
    return true;
  }

  // Where a token is at the moment on screen, of each sequence that has it. Chosen, its page is watched.
  #tellToken(query) {
    const asked = askedToken(query);
    const { state, moment } = this.act.shown();
    if (asked === undefined || state === undefined) return false;
    const { token, sequence } = asked;
    const size = this.run.overview.block_size;
    const when = `${moment.step}.${moment.event ?? "end"}`;
    const rows = state.rows.filter((row) => token < row.num_tokens && (sequence ?? row.id) === row.id);
    for (const row of rows) {
      const page = pageOfToken(row, token, size);
      const watch = () => {
        this.close();
        this.act.watchPage(page);
      };
      const words = [h("b", {}, when), ` ${tokenWords(state, row, token, size)}`];
      const answer = page === undefined ? h("p", {}, ...words) : h("button", { type: "button", on: { click: watch } }, ...words, ": watch");
      answer.dataset.testid = "token";
      this.list.append(h("li", {}, answer));
    }
    return rows.length > 0;
  }

  #add(moment, words) {
    const go = () => {
      this.close();
      this.act.go(moment);
    };
    const where = `${moment.step}.${moment.event}`;
    this.list.append(h("li", {}, h("button", { type: "button", on: { click: go } }, h("b", {}, where), ` ${words}`)));
  }
}

// Names of pages, sequences and tokens are found as whole words: p1 is not p12.
function matcher(query) {
  const text = query.toLowerCase();
  const asked = askedToken(query);
  if (asked !== undefined) {
    const words = [`token ${asked.token}`, ...(asked.sequence === undefined ? [] : [`seq:${asked.sequence}`])].map(wholeWord);
    return (line) => words.every((word) => word.test(line.toLowerCase()));
  }
  if (!/^(p\d+(\.\d+)?|seq:\d+)$/.test(text)) return (line) => line.toLowerCase().includes(text);
  const word = wholeWord(text);
  return (line) => word.test(line.toLowerCase());
}

const wholeWord = (text) => new RegExp(`(^|[^\\w.])${text.replace(".", "\\.")}(?!\\d)`);
