#!/opt/mledger/bin/python -P
"""Writes settings from the environment into configuration files."""

import sys

from mledger.standalone.image.environment import main

sys.exit(main())
