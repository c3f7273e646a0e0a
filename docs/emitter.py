"""How a foreign engine writes a pagedviz trace: no model, no token ids, nothing to install."""

import json
from collections import deque

NUM_PAGES, BLOCK_SIZE = 12, 4
REQUESTS = [(9, 6), (5, 8), (14, 4)]  # prompt tokens, new tokens

free = deque(range(NUM_PAGES))
tables = [[] for _ in REQUESTS]
known = [prompt for prompt, _ in REQUESTS]
computed = [0 for _ in REQUESTS]
running = list(range(len(REQUESTS)))

header = {"format": "pagedviz-trace", "version": 1, "producer": "my engine 1.0"}
print(json.dumps({**header, "num_pages": NUM_PAGES, "block_size": BLOCK_SIZE}))
events = []
for seq, (prompt, new) in enumerate(REQUESTS):
    events.append({"submitted": {"seq": seq, "num_prompt_tokens": prompt, "max_new_tokens": new}})
for step in range(max(new for _, new in REQUESTS)):
    for seq in running:
        while len(tables[seq]) * BLOCK_SIZE < known[seq]:
            tables[seq].append(free.popleft())
            events.append({"allocated": {"page": tables[seq][-1], "seq": seq}})
        events += [{"admitted": {"seq": seq}}, {"state": {"seq": seq}}] if step == 0 else []
        events.append({"scheduled": {"seq": seq, "num_tokens": known[seq] - computed[seq]}})
    events.append({"all_written": {}})  # the forward pass is here
    for seq in list(running):
        computed[seq], known[seq] = known[seq], known[seq] + 1
        events += [{"sampled": {"seq": seq}}] + ([{"state": {"seq": seq}}] if step == 0 else [])
        if known[seq] == sum(REQUESTS[seq]):
            running.remove(seq)
            events += [{"finished": {"seq": seq, "reason": "max_length"}}, {"state": {"seq": seq}}]
            for page in reversed(tables[seq]):  # the last page first, to the back of the queue
                events.append({"released": {"page": page, "seq": seq}})
                free.append(page)
    print(json.dumps({"step": step, "events": events}))
    events = []
