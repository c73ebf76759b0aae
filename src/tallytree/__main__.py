"""`python -m tallytree`."""

from tallytree.cli.app import main

main()
