"""`python -m mledger`: the command, for those whose path lacks the directory of scripts."""

from mledger.cli.main import main

if __name__ == "__main__":
    main()
