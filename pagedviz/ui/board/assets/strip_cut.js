// What of a sequence's text is out of sight, at its start and at its end, counted from the layout.

import { count } from "./dom.js";

const A_LITTLE = 4; // px: a border out of sight hides nothing

// items: elements in reading order, in the box `text`. How many of them are not wholly in sight.
export function cutOf(text, items) {
  const { scrollTop: top, scrollLeft: left, clientWidth: width, clientHeight: height } = text;
  const isBefore = (e) => e.offsetTop < top - A_LITTLE || e.offsetLeft < left - A_LITTLE;
  const isIn = (e) =>
    e.offsetTop + e.offsetHeight <= top + height + A_LITTLE && e.offsetLeft + e.offsetWidth <= left + width + A_LITTLE;
  const before = firstNot(items, isBefore);
  return { before, after: items.length - Math.max(before, firstNot(items, (e) => isBefore(e) || isIn(e))) };
}

// The first that does not fulfil what all before it do.
function firstNot(items, does) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (does(items[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

// shared: of the pages before, those that others hold too. Three texts, the second can be left out.
export function cutWords({ before, after }, noun, shared = 0) {
  return [
    before ? `… ${count(before, noun)} before` : "",
    shared ? `, ${shared} shared` : "",
    after ? `${before ? " · " : ""}${count(after, noun)} after …` : "",
  ];
}
