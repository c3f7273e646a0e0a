"""`python -m pagedviz` is the command `pagedviz`."""

import sys

from pagedviz.cli import main

sys.exit(main())
