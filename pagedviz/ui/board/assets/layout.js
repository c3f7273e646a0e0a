// The elements of the board and where they stand.

import { h } from "./dom.js";
import { EventList } from "./draw_events.js";
import { PoolCells } from "./draw_pool.js";
import { PoolCanvas } from "./draw_pool_canvas.js";
import { legend } from "./draw_queues.js";
import { SequenceList } from "./draw_sequences.js";
import { LaneStrip, PoolStrip } from "./draw_strips.js";
import { TimeBar } from "./draw_timebar.js";
import { Bookmarks, KeySheet, Table } from "./panels.js";
import { Search } from "./search.js";

// act: what the time bar, the search and the list of bookmarks do. marks: add, remove, of bookmarks.
// goToEvent(moment): chosen from the list of events.
export function layOut(run, numHues, hints, act, marks, goToEvent) {
  const { overview } = run;
  const parts = {
    timeBar: new TimeBar(run, act),
    panels: {
      keys: new KeySheet(),
      search: new Search(run, act),
      table: new Table(overview.last_tables),
      bookmarks: new Bookmarks(hints, { go: act.go, ...marks }),
    },
    sentence: h("p", { data: { testid: "sentence" } }),
    status: h("p", { class: "status", role: "status" }),
    spoken: h("p", { class: "unseen", "aria-live": "polite" }),
    queues: h("div", { class: "queues" }),
    sequences: new SequenceList(run, numHues),
    pool: overview.detail === "slots" ? new PoolCells(overview, numHues) : new PoolCanvas(overview, numHues),
    poolTitle: h("h2", {}, "Page pool"),
    host: h("span", { class: "host", data: { testid: "host" } }),
    next: h("p", { class: "next" }),
    lanes: new LaneStrip(overview, numHues),
    occupancy: new PoolStrip(overview, numHues),
    events: new EventList(run, goToEvent),
  };
  parts.host.hidden = !overview.host;
  parts.root = h(
    "div",
    { class: "board", data: { testid: "board", loaded: 0 }, role: "region", "aria-label": "Board", style: "visibility: hidden" },
    parts.timeBar.element,
    h("div", { class: "sentence" }, parts.sentence, parts.status),
    h("section", { class: "sequences", "aria-label": "Sequences" }, parts.queues, parts.sequences.element),
    h(
      "section",
      { class: "pool", "aria-label": "Page pool" },
      h("div", { class: "poolhead" }, parts.poolTitle, parts.host),
      parts.pool.element,
      parts.next,
      legend(overview),
    ),
    h("div", { class: "strips" }, parts.lanes.element, parts.occupancy.element, parts.events.element),
    parts.spoken,
    ...Object.values(parts.panels).map((panel) => panel.element),
  );
  return parts;
}
