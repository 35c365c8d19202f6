"""`windlass completion`: completion scripts for shells."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash: add to ~/.bashrc: eval "$(windlass completion bash)"
    zsh:  add to ~/.zshrc:  eval "$(windlass completion zsh)"
    fish: windlass completion fish > ~/.config/fish/completions/windlass.fish
    """
    completer = get_completion_class(shell)
    assert completer is not None, "click supports these shells"
    click.echo(completer(ctx.find_root().command, {}, "windlass", "_WINDLASS_COMPLETE").source())
    return 0
