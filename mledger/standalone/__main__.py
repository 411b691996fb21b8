"""`python -m mledger.standalone`: what `start_standalone_process` runs."""

import sys

from mledger.metastore.runtime.processes.gc_pause import imports_uncollected

with imports_uncollected():
    from mledger.standalone.main import main

sys.exit(main())
