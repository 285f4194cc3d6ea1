"""The command ``madbayes``. What it needs beyond the library comes with ``pip install "madbayes[app]"``."""

import sys
from importlib.util import find_spec

NEEDED = ("typer", "rich", "pandas", "pyarrow", "matplotlib", "PIL", "jinja2")


def main() -> None:
    """Run the command, or say what to install."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        print(f'The madbayes command needs {", ".join(missing)}: pip install "madbayes[app]"', file=sys.stderr)
        sys.exit(1)
    from madbayes.commands import app

    app()


if __name__ == "__main__":
    main()
