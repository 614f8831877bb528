"""Downloads over a real connection to a server that misbehaves on purpose."""

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field

import numpy as np
import pytest

from fedgrid.data.sources import download
from fedgrid.errors import UserError

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()


@dataclass
class Site:
    """Paths with their content, and what the server is to do wrong with each."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, list[int]] = field(default_factory=dict)
    "Numbers of bytes after which the next answers end."
    broken: dict[str, list[int]] = field(default_factory=dict)
    "Statuses of the next answers."
    no_ranges: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    "Path and Range header of every request."
    sent: int = 0
    url: str = ""


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(download, "WAITS", (0.0, 0.0, 0.0))
    state = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer(state, self)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def answer(state, request):
    path, wanted = request.path, request.headers.get("Range")
    state.asked.append((path, wanted))
    if state.broken.get(path) or path not in state.files:
        request.send_error(state.broken[path].pop(0) if state.broken.get(path) else 404)
        return
    content = state.files[path]
    start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and path not in state.no_ranges else 0
    if start and start >= len(content):
        request.send_response(416)
        request.send_header("Content-Range", f"bytes */{len(content)}")
        request.end_headers()
        return
    request.send_response(206 if start else 200)
    if start:
        request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(content) - start))
    request.end_headers()
    end = state.cut[path].pop(0) if state.cut.get(path) else len(content)
    state.sent += len(content[start:end])
    request.wfile.write(content[start:end])


def test_a_download_is_resumed_where_it_ended(site, tmp_path):
    site.files["/a"], site.cut["/a"] = CONTENT, [100_000, 250_000]
    file = download.fetch(f"{site.url}/a", tmp_path / "new" / "a.bin", sha256=SHA256)
    assert file.read_bytes() == CONTENT
    assert site.asked == [("/a", None), ("/a", "bytes=100000-"), ("/a", "bytes=250000-")]
    assert site.sent == len(CONTENT)
    assert sorted(p.name for p in file.parent.iterdir() if not p.name.startswith(".")) == ["a.bin"]


def test_what_an_earlier_run_left_is_continued(site, tmp_path):
    site.files["/a"] = CONTENT
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:120_000])
    download.fetch(f"{site.url}/a", tmp_path / "a.bin", md5=MD5)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT and site.sent == 180_000


def test_a_complete_part_is_only_verified(site, tmp_path):
    site.files["/a"] = CONTENT
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    download.fetch(f"{site.url}/a", tmp_path / "a.bin", sha256=SHA256)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT and site.sent == 0


def test_a_part_longer_than_the_file_starts_over(site, tmp_path):
    site.files["/a"] = CONTENT
    (tmp_path / "a.bin.part").write_bytes(CONTENT + b"more")
    download.fetch(f"{site.url}/a", tmp_path / "a.bin", sha256=SHA256)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(site, tmp_path):
    site.files["/a"], site.cut["/a"], site.no_ranges = CONTENT, [100_000], {"/a"}
    download.fetch(f"{site.url}/a", tmp_path / "a.bin", sha256=SHA256)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert site.sent == 100_000 + len(CONTENT)


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(site, tmp_path):
    site.files["/good"], site.broken["/good"] = CONTENT, [503, 429]
    with pytest.raises(UserError, match=r"/absent: .*404"):
        download.fetch(f"{site.url}/absent", tmp_path / "a.bin", sha256=SHA256)
    download.fetch(f"{site.url}/good", tmp_path / "a.bin", sha256=SHA256)
    assert [path for path, _ in site.asked] == ["/absent", "/good", "/good", "/good"]
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_wrong_file_leaves_nothing_and_says_all(site, tmp_path):
    site.files |= {"/wrong": b"x" * 400_000, "/good": CONTENT}
    with pytest.raises(UserError) as error:
        download.fetch(f"{site.url}/wrong", tmp_path / "a.bin", sha256=SHA256)
    message = str(error.value)
    assert f"{site.url}/wrong: its sha256 is " in message and SHA256 in message
    assert message.endswith(f"put it there yourself as {tmp_path / 'a.bin'}") and "\n" not in message
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == []
    download.fetch(f"{site.url}/good", tmp_path / "a.bin", sha256=SHA256)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT and site.asked[1] == ("/good", None)


def test_a_server_that_always_breaks_off_is_given_up(site, tmp_path):
    site.files["/a"], site.cut["/a"] = CONTENT, [1_000] * 100
    with pytest.raises(UserError, match=r"the connection ended after 1,000 of 300,000 bytes"):
        download.fetch(f"{site.url}/a", tmp_path / "a.bin", sha256=SHA256)
    assert not (tmp_path / "a.bin").exists()
    assert len(site.asked) <= 2 + len(download.WAITS)


def test_no_server_at_all(site, tmp_path):
    with pytest.raises(UserError, match=r"a.bin could not be downloaded \(http://127.0.0.1:9/a: .*refused"):
        download.fetch("http://127.0.0.1:9/a", tmp_path / "a.bin", sha256=SHA256)


def test_a_right_file_needs_no_network_and_a_wrong_one_is_replaced(site, tmp_path):
    site.files["/a"], file = CONTENT, tmp_path / "a.bin"
    file.write_bytes(b"half")
    assert download.fetch(f"{site.url}/a", file, sha256=SHA256).read_bytes() == CONTENT
    assert download.fetch("http://127.0.0.1:9/a", file, sha256=SHA256) == file


def test_a_zip_without_a_checksum_must_pass_its_own(site, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", CONTENT[:1000])
    whole = buffer.getvalue()
    site.files |= {"/bad": whole[:200] + bytes(50) + whole[250:], "/good": whole, "/none": b"no zip"}
    for name, flaw in (("bad", "its member a.txt is damaged"), ("none", "it is not a whole zip archive")):
        with pytest.raises(UserError, match=f"/{name}: {flaw}"):
            download.fetch(f"{site.url}/{name}", tmp_path / "a.zip")
        assert not (tmp_path / "a.zip").exists()
    assert download.fetch(f"{site.url}/good", tmp_path / "a.zip").read_bytes() == whole


def packed(file, name):
    with tarfile.open(file, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(CONTENT)
        tar.addfile(member, io.BytesIO(CONTENT))


def test_an_archive_is_unpacked_whole_or_not_at_all(tmp_path):
    archive = tmp_path / "a.tgz"
    packed(archive, "set/a.bin")
    assert (download.unpacked(archive, "set") / "a.bin").read_bytes() == CONTENT
    archive.write_bytes(archive.read_bytes()[:-1000])
    with pytest.raises(UserError, match=r"a.tgz: cannot be unpacked"):
        download.unpacked(archive, "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".download.lock", "a.tgz", "set"]


def test_an_archive_cannot_write_elsewhere(tmp_path):
    (tmp_path / "in").mkdir()
    packed(tmp_path / "in" / "a.tgz", "../outside.bin")
    with pytest.raises(UserError, match="cannot be unpacked"):
        download.unpacked(tmp_path / "in" / "a.tgz", "set")
    assert not (tmp_path / "outside.bin").exists()
