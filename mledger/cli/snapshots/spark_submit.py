"""`spark-submit …/spark_submit.py DEST --metadata URL …`: `mledger snapshot export --spark` in Spark's session."""

import os
import sys

if __name__ == "__main__":
    # Python puts this file's directory first on the path; its modules must not be importable by
    # bare names
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]

    from mledger.cli.main import run

    sys.exit(run(["snapshot", "export", "--spark", *sys.argv[1:]]))
