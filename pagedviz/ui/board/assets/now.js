// What the event just past has touched, to be marked as "now"; at the end of a step all its events
// together, of which the sequences would be nearly all, which marks nothing.

export function focusOf(run, { step, event }) {
  const focus = { pages: new Set(), sequences: new Set(), tokens: new Map(), slots: new Map() };
  const [low, high] = event === null ? [1, run.numEvents(step)] : [event, event];
  for (let number = Math.max(low, 1); number <= high; number++) {
    const { kind, touched } = run.event(step, number);
    const [pages, sequences, tokens, slots] = touched;
    pages.forEach((id) => focus.pages.add(id));
    if (low === high && kind === "PageCopied") focus.source = pages[1];
    if (low === high) sequences.forEach((id) => focus.sequences.add(id));
    if (tokens) addSpan(focus.tokens, tokens);
    slots.forEach((span) => addSpan(focus.slots, span));
  }
  return focus;
}

function addSpan(spans, [id, start, length]) {
  spans.set(id, [...(spans.get(id) ?? []), [start, start + length]]);
}

export const holds = (spans, at) => spans !== undefined && spans.some(([low, high]) => at >= low && at < high);
