"""`python -m pagedviz` is the command `pagedviz`."""

import sys

try:
    from pagedviz.cli import main

    code = main()
except KeyboardInterrupt:  # while the modules load; the commands see to it themselves
    code = 130
sys.exit(code)
