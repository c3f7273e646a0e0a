"""The board on the page: a component that steps in the browser, and what Python sends to it."""

from pagedviz.ui.board.component import board_assets, draw_board

__all__ = ["board_assets", "draw_board"]
