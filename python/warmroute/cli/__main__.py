"""`python -m warmroute.cli` is `warmroute`."""

import sys

from warmroute.cli import main

sys.exit(main())
