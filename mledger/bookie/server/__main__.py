"""`python -m bookie.server`."""

import sys

from bookie.server.process.main import main

sys.exit(main())
