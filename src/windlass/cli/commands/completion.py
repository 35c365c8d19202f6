"""`windlass completion`: the script with which a shell completes this command."""

import click
from click.shell_completion import get_completion_class

SHELLS = {
    "bash": 'eval "$(windlass completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(windlass completion zsh)" in ~/.zshrc',
    "fish": "windlass completion fish > ~/.config/fish/completions/windlass.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash: eval "$(windlass completion bash)" in ~/.bashrc
    zsh:  eval "$(windlass completion zsh)" in ~/.zshrc
    fish: windlass completion fish > ~/.config/fish/completions/windlass.fish
    """
    completer = get_completion_class(shell)
    assert completer is not None, "click knows these shells"
    click.echo(completer(ctx.find_root().command, {}, "windlass", "_WINDLASS_COMPLETE").source())
    return 0
