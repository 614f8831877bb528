"""Archives that were damaged, or made to harm: each is refused in one sentence, and nothing is written."""

import hashlib
import stat
import struct
import zipfile

import pytest
from archives import contents, is_untouched, packed
from commands import complaint, output

LINK, FIFO, DEVICE, SOCKET, FOLDER = stat.S_IFLNK, stat.S_IFIFO, stat.S_IFBLK, stat.S_IFSOCK, stat.S_IFDIR


def with_file(name, content=b"x"):
    return lambda: packed(contents(), infos=[(zipfile.ZipInfo(name), content)])


def of_mode(mode):
    def made():
        info = zipfile.ZipInfo("results/odd.csv")
        info.create_system, info.external_attr = 3, (mode | 0o644) << 16
        return packed(contents(), infos=[(info, b"/etc/passwd")])

    return made


def without(name):
    return lambda: packed({known: content for known, content in contents().items() if known != name})


def edited(old, new, count=1):
    """An archive some of whose bytes are others; stored, so that contents can be found in it."""

    def made():
        content = packed(contents())
        assert content.count(old) >= count
        return content.replace(old, new)

    return made


def truncated(share):
    return lambda: packed(contents())[: int(len(packed(contents())) * share)]


def central(field, form, value):
    """An archive whose central directory says another value of the page of results, at an offset of its entry."""

    def made():
        content = bytearray(packed(contents()))
        entry = content.index(b"PK\x01\x02")
        while content[entry + 46 :][: len(b"results/")] != b"results/":
            entry = content.index(b"PK\x01\x02", entry + 4)
        struct.pack_into(form, content, entry + field, value)
        return bytes(content)

    return made


def bomb():
    return packed(contents() | {"results/digits/big.csv": bytes(2**27)}, compression=zipfile.ZIP_DEFLATED)


def nul_name():
    return packed(contents() | {"results/aXb": b"x"}).replace(b"results/aXb", b"results/a\0b")


def with_another_checksum():
    """An archive whose checksums name a file that it does not have."""
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents().items()]
    return packed(contents(), checksums="".join([*lines, f"{'0' * 64}  results/none\n"]))


def described(**changes):
    return lambda: packed(contents(**changes))


HOSTILE = {
    "empty file": (lambda: b"", "not a whole archive"),
    "text": (lambda: b"hello" * 100, "not a whole archive"),
    "empty zip": (lambda: b"PK\x05\x06" + bytes(18), "it has no index.html"),
    "cut in half": (truncated(0.5), "not a whole archive"),
    "cut at its end": (truncated(0.98), "not a whole archive"),
    "gzip": (lambda: b"\x1f\x8b\x08" + bytes(200), "not a whole archive"),
    "another zip": (lambda: packed({"README.md": b"x"}, checksums=False), "it has no index.html"),
    "no provenance": (without("provenance.json"), "it has no provenance.json"),
    "no description": (without("ro-crate-metadata.json"), "it has no ro-crate-metadata.json"),
    "no checksums": (lambda: packed(contents(), checksums=False), "it has no checksums.sha256"),
    "parent folder": (with_file("../evil"), "leads out of the archive"),
    "parent folder within": (with_file("results/../../evil"), "leads out of the archive"),
    "absolute": (with_file("/etc/cron.d/evil"), "is absolute"),
    "drive": (with_file("C:/evil"), "is absolute"),
    "backslash": (with_file("results\\..\\evil"), "has a character that no name here has"),
    "line break": (with_file("results/a\nb"), "has a character that no name here has"),
    "right to left": (with_file("results/a\u202egpj.py"), "has a character that no name here has"),
    "zero byte": (nul_name, "has a character that no name here has"),
    "hidden": (with_file("project/.git/hooks/post-checkout"), "empty or hidden"),
    "empty part": (with_file("results//a"), "empty or hidden"),
    "dot": (with_file("results/./a"), "empty or hidden"),
    "long name": (with_file("results/" + "a" * 300), "is too long"),
    "deep name": (with_file("results/" + "a/" * 600 + "a"), "is too long"),
    "unknown top": (with_file("bin/sh"), "is not a file that an archive"),
    "a file that is no part": (with_file("setup.py"), "is not a file that an archive"),
    "code in the store": (with_file("results/store/code/0/fedgrid/__init__.py"), "is not a file that an archive"),
    "plan in the store": (with_file("results/store/plans/a.json"), "is not a file that an archive"),
    "another Snakefile": (with_file("project/Snakefile"), "is not a file that an archive"),
    "another profile": (with_file("project/Profiles/default/config.yaml"), "is not a file that an archive"),
    "code in the store by the project": (with_file("project/results/store/code/a.py"), "is not a file that an archive"),
    "link": (of_mode(LINK), "'results/odd.csv' is a link"),
    "pipe": (of_mode(FIFO), "'results/odd.csv' is a device"),
    "device": (of_mode(DEVICE), "'results/odd.csv' is a device"),
    "socket": (of_mode(SOCKET), "'results/odd.csv' is a device"),
    "folder by mode": (of_mode(FOLDER), "'results/odd.csv' is a folder"),
    "folder by name": (with_file("results/a/", b""), "empty or hidden"),
    "twice": (with_file("results/digits/report.html"), "comes twice"),
    "twice but for case": (with_file("results/digits/Report.html"), "is the same as 'results/digits/report.html'"),
    "file and folder": (with_file("project/study.yaml/a"), "is a file and a folder"),
    "file and folder above": (with_file("results/digits/report.html/a/b.csv"), "is a file and a folder"),
    "bomb": (bomb, "which is too much for"),
    "huge by its own word": (central(24, "<I", 2**32 - 2), "MB unpacked, which is too much for"),
    "larger than declared": (central(24, "<I", 2), "not a whole archive"),
    "encrypted": (central(8, "<H", 1), "is encrypted"),
    "unknown compression": (central(10, "<H", 99), "by a method that is not allowed (99)"),
    "two files in one place": (central(42, "<I", 0), "its files overlap"),
    "outside of itself": (central(42, "<I", 10**6), "its files overlap"),
    "changed content": (edited(b"page", b"pagE"), "not a whole archive"),
    "unlisted file": (lambda: packed(contents(), checksums=""), "has no checksum"),
    "no checksum line": (lambda: packed(contents(), checksums="hello\n"), "has a line that is no checksum"),
    "checksum of nothing": (with_another_checksum, "'results/none' has a checksum and is missing"),
    "other checksum": (
        lambda: packed(contents(), checksums="".join(f"{'0' * 64}  {name}\n" for name in contents())),
        "has changed since the archive was made",
    ),
    "checksums that are no text": (lambda: packed(contents(), checksums=b"\xff\xfe"), "not a whole archive"),
    "provenance that is no JSON": (lambda: packed(contents() | {"provenance.json": b"{"}), "not a whole archive"),
    "deep JSON": (lambda: packed(contents() | {"provenance.json": b"[" * 10**5}), "not a whole archive"),
    "a list": (lambda: packed(contents() | {"provenance.json": b"[]"}), "its description is not one"),
    "later format": (described(format=2), "its format is 2"),
    "a cell without code": (
        described(cells={"0" * 16: {"file": "a", "code": "b"}}),
        "the code of a cell is not described",
    ),
    "no parquet": (with_file(f"results/store/cells/a/b/c/s0-{'0' * 16}.parquet"), "is damaged"),
    "no partition": (with_file("results/store/partitions/a/b/seed=0.parquet"), "is damaged"),
    "no first sight": (with_file("results/store/originals/a.json", b"{}"), "is damaged"),
}


def test_an_archive_in_which_nothing_is_wrong_is_opened(here, capsys):
    (here.parent / "a.zip").write_bytes(packed(contents()))
    assert "Next: fedgrid go study.yaml" in output(capsys, "open", "../a.zip")
    assert (here / "results/digits/report.html").read_bytes() == b"page"


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", HOSTILE)
def test_refused(kind, here, capsys):
    made, sentence = HOSTILE[kind]
    archive = here.parent / "a.zip"
    archive.write_bytes(made())
    error = complaint(capsys, "open", "../a.zip")
    assert error.startswith("fedgrid: ../a.zip: refused, ") and sentence in error, error
    assert is_untouched(here)
    assert {file.name for file in here.parent.iterdir()} == {"here", "a.zip"}


def test_nothing_of_a_project_lands_among_results(here, capsys):
    (here.parent / "a.zip").write_bytes(with_file("project/mine/notes.txt")())
    sentence = "refused, 'project/mine/notes.txt' would lie among the results"
    assert complaint(capsys, "open", "../a.zip", "--results", "mine") == f"fedgrid: ../a.zip: {sentence}\n"
    assert not list(here.rglob("*.txt")) and not list(here.rglob("*.html"))


@pytest.mark.parametrize(
    ("name", "sentence"), [("none.zip", "none.zip does not exist"), (".", ". is not a regular file")]
)
def test_what_is_no_file_is_refused(name, sentence, here, capsys):
    assert complaint(capsys, "open", name) == f"fedgrid: {sentence}\n"
