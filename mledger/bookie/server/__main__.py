"""`python -m mledger.bookie.server`."""

import sys

from mledger.bookie.server.process.main import main

sys.exit(main())
