"""`python -m hypercrl`, for where the command is not on the path."""

from hypercrl.cli import main

if __name__ == "__main__":
    main()
