"""`mledger completion`: scripts for shell completion of commands, options, and names in a cluster."""

import click
from click.shell_completion import (
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

PROGRAM = "mledger"
VARIABLE = "_MLEDGER_COMPLETE"
LINE = "COMP_WORDS"  # the text up to the cursor

# Readline ends a word at a colon and then replaces only the text after the last one.
_BASH = """\
%(complete_func)s() {
    local typed="${COMP_LINE:0:COMP_POINT}" kind value
    local colons="${typed##*[[:space:]]}"
    colons="${colons%%"${colons##*:}"}"
    [[ $COMP_WORDBREAKS == *:* ]] || colons=
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
        dir) compopt -o dirnames ;;
        file) compopt -o default ;;
        plain)
            [[ $value == *[!a-zA-Z0-9._:/=%%+,@-]* ]] && printf -v value %%q "$value"
            COMPREPLY+=("${value#"$colons"}")
            ;;
        esac
    done < <(COMP_WORDS="$typed" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(ShellComplete):
    """Bash with the whole line as input: its own words end at colons, which topic names contain."""

    name = "bash"
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the current one, and the current one."""
        import os

        line = os.environ.get(LINE, "")
        words = split_arg_string(line)
        typed = "" if not line or line[-1].isspace() else words.pop()
        return words[1:], typed

    def format_completion(self, item: CompletionItem[str]) -> str:
        """One line of the input of the script."""
        return f"{item.type},{item.value}"


def register() -> None:
    """Register this module's completion with click."""
    add_completion_class(_Bash)


@click.command(epilog="Example: mledger completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete `mledger` commands.

    Names of topics and cursors and paths of nodes come from the selected cluster. If it does not
    answer at once, they are not completed.
    """
    kinds: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": FishComplete}
    click.echo(kinds[shell](click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source())
