"""`python -m mledger.bookie.server`: what `mledger bookie run` is, without the command's own imports."""

import sys

from mledger.bookie.server.process.main import main

sys.exit(main())
