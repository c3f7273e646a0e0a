"""The time strip of the Compare screen: a drawing with a slider over it."""

from pagedviz.ui.strip.component import draw_time_strip

__all__ = ["draw_time_strip"]
