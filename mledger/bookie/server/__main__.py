"""`python -m mledger.bookie.server`: the same as `mledger bookie run`, without the imports of the command line."""

import sys

from mledger.bookie.server.process.main import main

sys.exit(main())
