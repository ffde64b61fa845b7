"""`python -m livingdb` is the command line."""

from livingdb.cli import main

if __name__ == "__main__":
    main()
