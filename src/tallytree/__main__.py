"""Run the command line: `python -m tallytree`."""

from tallytree.cli.app import main

if __name__ == "__main__":
    main()
