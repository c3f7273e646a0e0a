// Who runs, who waits, what the step may still compute, and which page is taken next.

import { badge, h, label } from "./dom.js";

const MOST_BADGES = 12;
const FREE_SHOWN = 8;

// Rebuilt with every frame: a few elements.
export function drawQueues(element, run, state, { step, event }, numHues) {
  const used = [];
  const last = event ?? run.numEvents(step);
  for (let number = 1; number <= last; number++) {
    const { kind, touched } = run.event(step, number);
    if (kind === "SequenceScheduled") used.push([state.sequence(touched[2][0]), touched[2][2]]);
  }
  element.replaceChildren(
    h("h2", {}, "Sequences"),
    queue("running", state, numHues),
    queue("waiting", state, numHues),
    budget(used, run.overview.budget, numHues),
  );
}

function queue(name, state, numHues) {
  const ids = [...state.list(name)];
  const badges = ids.slice(0, MOST_BADGES).map((id) => badge(state.sequence(id), numHues, "badge small"));
  const more = ids.length > MOST_BADGES ? ` and ${ids.length - MOST_BADGES} more` : "";
  return h("span", { class: "queue" }, `${name} `, ...badges, badges.length ? more : "none");
}

function budget(used, total, numHues) {
  const sum = used.reduce((tokens, [, number]) => tokens + number, 0);
  if (total === null) return h("span", { class: "queue budget" }, `${sum} tokens in this step`);
  const bar = h("span", { class: "bar" });
  for (const [sequence, tokens] of used) {
    const part = h("i", { class: `h${sequence.index % numHues}`, title: `seq:${sequence.id}: ${tokens}`, data: { s: sequence.id } });
    part.style.width = `${(100 * tokens) / total}%`;
    bar.append(part);
  }
  return h("span", { class: "queue budget" }, "budget ", bar, h("span", { class: "sum" }, `${sum} of ${total} tokens`));
}

export function freeQueue(element, state) {
  const shown = [];
  let length = 0;
  for (const id of state.list("queue")) {
    length++;
    if (length <= FREE_SHOWN) {
      const name = h("span", { class: state.pageState(id), data: { p: id } }, label(state, id));
      shown.push(name, " ");
    }
  }
  if (!length) element.replaceChildren("Free queue: empty, the next page needed costs a preemption");
  else {
    // The count is in front: the end of the line may be cut off. Cached pages wait here too.
    element.replaceChildren(`Free queue of ${length}, next first: `, ...shown, length > FREE_SHOWN ? "…" : "");
  }
}

export function legend(overview) {
  const entry = (sign, words) => h("span", {}, sign, ` ${words}`);
  const key = (name) => h("i", { class: `key ${name}` });
  return h(
    "p",
    { class: "legend" },
    entry(key("slot"), overview.detail === "slots" ? "filled slot" : overview.detail === "fill" ? "filled share" : "held, as far as filled"),
    entry(key("cached"), "cached: unowned, findable"),
    overview.detail === "slots" ? entry(h("b", { class: "refs" }, "×2"), "shared by 2") : undefined,
    entry(key("now"), "changed now"),
    overview.ticks.some(([, , kind]) => kind === "copy") ? entry(key("source"), "copied from") : undefined,
    h("span", {}, "p7.2 = page 7, second use"),
  );
}
