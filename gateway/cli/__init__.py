"""The command line, `pepper`. It promises that help comes at once (what a command needs is loaded when it runs),
that errors are one line on standard error, and that the exit status is 0, 1, or 2 for wrong usage.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

import click
from click.exceptions import NoArgsIsHelpError
from typing_extensions import override

from gateway import collector
from gateway.cli.shared import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "serve": "Run the gateway.",
    "project": "Projects: who may call, how often, for how much money.",
    "key": "Keys of projects; several may be live at once.",
    "recipe": "Recipes: what partners can ask for.",
    "knowledge": "A project's own documents, which its answers are given on.",
    "model": "Pepper models: what partners talk to, and who answers for them.",
    "price": "Prices of the providers' models.",
    "dilem": "Dilem, the second front door: what its users report.",
    "admin": "Administrators: who may use the panel, and what they may do there.",
    "migrate": "Create or upgrade the database's tables and install what is missing.",
    "doctor": "Check settings, stores, provider keys, recipes and prices, and say what to mend.",
}
"""Every command: `NAME` in the module of that name. The sentences are the commands' own, known before they are loaded."""
WRONG_USAGE = 2
INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""


class _Commands(click.Group):
    """The commands, each imported when it is called."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"gateway.cli.{cmd_name}"), cmd_name)
        return command if isinstance(command, click.Command) else None

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(tuple(COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["--help"], "max_content_width": 110})
@click.version_option(package_name="pepper-gateway", prog_name="pepper", message="%(prog)s %(version)s")
def pepper() -> None:
    """Serve and administer Pepper, the AI gateway."""


def main() -> None:
    """Run the command of this process's arguments and end the process with its status."""
    collector.calm()
    os.umask(0o077)  # what Pepper writes holds conversations: its owner alone reads it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal's encoding lacks must not stop a listing.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    try:
        status = pepper.main(arguments, prog_name="pepper", standalone_mode=False)
    except NoArgsIsHelpError as error:
        error.show()
        return WRONG_USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pepper"
        complain(f"{error.format_message()} ({command} --help)")
        return WRONG_USAGE
    except click.ClickException as error:
        complain(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has read enough; the interpreter must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        complain(str(error))
        return 1
    return status if isinstance(status, int) else 0
