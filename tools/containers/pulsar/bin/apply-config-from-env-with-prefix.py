#!/opt/mledger/bin/python -P
"""Writes settings from variables with a prefix into configuration files."""

import sys

from mledger.standalone.image.environment import main_with_prefix

sys.exit(main_with_prefix())
