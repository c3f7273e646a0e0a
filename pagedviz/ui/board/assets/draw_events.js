// The events of the step; a click goes right after one.

import { count, h, setAttribute, setClass, setText } from "./dom.js";

const MOST_SHOWN = 120;

export class EventList {
  constructor(run, go) {
    this.run = run;
    this.go = go;
    this.title = h("h2", {}, "Events");
    this.list = h("ol", { class: "events", tabindex: 0, "aria-label": "Events of this step" });
    this.element = h("section", { class: "strip", "aria-label": "Events" }, this.title, this.list);
    this.rows = [];
    this.first = 1;
  }

  draw(moment) {
    const { step, event } = moment;
    const total = this.run.numEvents(step);
    setText(this.title, `Step ${step} · ${count(total, "event")}${event === null ? "" : ` · after ${event}`}`);
    this.first = 1 + Math.max(0, Math.min((event ?? 0) - MOST_SHOWN / 2, total - MOST_SHOWN));
    const shown = Math.min(total, MOST_SHOWN);
    for (let i = this.rows.length; i < shown; i++) this.#add(i);
    this.rows.forEach((row, i) => {
      row.element.hidden = i >= shown;
      if (i >= shown) return;
      const number = this.first + i;
      setText(row.number, number);
      setText(row.text, this.run.line(step, number));
      setClass(row.element, event === number ? "now" : event !== null && number > event ? "todo" : "");
      setAttribute(row.button, "aria-current", event === number ? "step" : null);
    });
    this.step = step;
    const current = this.rows[(event ?? 0) - this.first];
    if (current && !current.element.hidden) this.#show(current.element);
    else if (event === 0) this.list.scrollTop = 0;
  }

  #show(element) {
    const top = element.offsetTop; // from the top of the list, which is positioned
    const { scrollTop, clientHeight } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    else if (top + element.offsetHeight > scrollTop + clientHeight) {
      this.list.scrollTop = top + element.offsetHeight - clientHeight;
    }
  }

  #add(i) {
    const number = h("span", { class: "number" });
    const text = h("span", { class: "text" });
    const button = h(
      "button",
      { type: "button", on: { click: () => this.go({ step: this.step, event: this.first + i }) } },
      number,
      text,
    );
    const element = h("li", { data: { e: i } }, button);
    this.list.append(element);
    this.rows[i] = { element, number, text, button };
  }

  // The number of the event in the row `i`.
  numberOf(i) {
    return this.first + Number(i);
  }
}
