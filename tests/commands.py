"""Commands called as a user would, and what they print."""

from fedgrid.cli.main import main


def output(capsys, *arguments):
    """What a command prints; it has to succeed."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr().out


def complaint(capsys, *arguments):
    """The one sentence with which a command refuses."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 2
    error = capsys.readouterr().err
    assert error.startswith("fedgrid: ") and error.count("\n") == 1
    return error
