"""`python -m bookie.server`."""

import sys

from bookie.server.process import main

sys.exit(main())
