"""The command ``madbayes``. What it needs beyond the library comes with ``pip install "madbayes[app]"``."""

import signal
import sys
from importlib.util import find_spec

NEEDED = ("typer", "rich", "pandas", "pyarrow", "matplotlib", "PIL", "jinja2")
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


def main() -> None:
    """Run the command, or say what to install."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        print(f'The madbayes command needs {", ".join(missing)}: pip install "madbayes[app]"', file=sys.stderr)
        sys.exit(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # an exit, so that half-written files go away
    try:
        from madbayes.commands import app
    except KeyboardInterrupt:
        print("madbayes: stopped before there was a result; none was written", file=sys.stderr)
        sys.exit(INTERRUPTED)
    app()


if __name__ == "__main__":
    main()
