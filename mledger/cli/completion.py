"""`mledger completion`: scripts that have a shell complete commands, options, and the names that a cluster has."""

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
LINE = "COMP_WORDS"  # what is typed up to the cursor

# Readline takes a colon for the end of a word, and then replaces only what follows the last one.
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
    """Bash, told the whole line: its own words end at colons, which topics have."""

    name = "bash"
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is typed, and that one."""
        import os

        line = os.environ.get(LINE, "")
        words = split_arg_string(line)
        typed = "" if not line or line[-1].isspace() else words.pop()
        return words[1:], typed

    def format_completion(self, item: CompletionItem[str]) -> str:
        """One line of what the script reads."""
        return f"{item.type},{item.value}"


def register() -> None:
    """Have click answer the shells by this module's rules."""
    add_completion_class(_Bash)


@click.command(epilog="Example: mledger completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that has SHELL complete what is typed of a `mledger` command.

    Names of topics and cursors, and paths of nodes, are asked of the cluster that --metadata or MLEDGER_METADATA names;
    where it does not answer at once, they are not completed.
    """
    from mledger.cli.main import command

    kinds: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": FishComplete}
    click.echo(kinds[shell](command, {}, PROGRAM, VARIABLE).source())
