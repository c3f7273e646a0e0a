"""What the screens show: data and figures made from snapshots and traces, never from an engine."""
