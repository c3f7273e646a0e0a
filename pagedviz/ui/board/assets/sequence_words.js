// What the head of a sequence's card says of it.

import { count } from "./dom.js";

export function chipText(row) {
  if (row.state === "prefilling") return `prefill ${row.num_computed} of ${row.num_tokens}`;
  if (row.state === "finished" && row.finish_reason) return `finished: ${row.finish_reason.replaceAll("_", " ")}`;
  return row.state === "preempted" && row.num_swapped !== undefined ? "swapped out" : row.state;
}

export function noteText(state, row) {
  const tokens = count(row.num_tokens, "token");
  if (row.state === "waiting") return `${tokens}${placeInQueue(state, row)}`;
  if (row.num_swapped !== undefined) {
    return `${count(row.num_swapped, "token")} on the host, ${count(row.host.length, "page")}${placeInQueue(state, row)}`;
  }
  if (row.state === "preempted") return `${tokens} to compute again${placeInQueue(state, row)}`;
  if (row.state === "finished") {
    return `${row.num_prompt_tokens} + ${row.num_tokens - row.num_prompt_tokens} new tokens`;
  }
  const shared = row.page.filter((id) => state.page.ref_count[id] > 1).length;
  return `${tokens}, ${count(row.page.length, "page")}${shared ? `, ${shared} shared` : ""}`;
}

function placeInQueue(state, row) {
  const place = [...state.list("waiting")].indexOf(row.id);
  if (place < 0) return "";
  return place === 0 ? ", next in the queue" : `, ${place} ahead in the queue`;
}
