"""Fixtures that run commands of the command line."""

import pytest
from typer.testing import CliRunner

from tallytree.cli import app
from tallytree.cli.failures import ExitCode


@pytest.fixture(scope="session")
def run():
    """Runs a command in this process; gives its exit code and what it printed."""

    def command(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return command


@pytest.fixture(scope="session")
def output(run):
    """Runs a command that must succeed without a word on standard error; gives its standard output."""

    def successful(*arguments):
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    return successful


@pytest.fixture(scope="session")
def refusal(run):
    """Runs a command that must fail with an exit code; gives the one line on standard error without `error: `."""

    def failing(*arguments, code=ExitCode.INPUT):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.removeprefix("error: ").rstrip("\n")

    return failing
