"""A program with a mark in every place that a bundle must not tell when it is redacted."""

import base64
import gzip
import io
import re
import zipfile

MARK = "qzsecret"
"""Begins every mark."""
NUMBER = "739184625"
"""An attribute's value."""
OTHER_NUMBER = "918273645"
"""An argument's value."""

HOME_FILE = """\
def qzsecrethome(x):
    print("qzsecrethomeprint")
    return x + 1
"""
PROGRAM = f'''\
"""qzsecretdocstring"""
import os
import sys

import torch

sys.path.insert(0, os.environ["HOME"])
from qzsecrethomefile import qzsecrethome


class QzsecretNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qzsecretlayer = torch.nn.Linear(4, 4)
        self.qzsecretscale = {NUMBER}
        self.qzsecrettag = "qzsecretattribute"

    def forward(self, qzsecretx, qzsecretlabel, qzsecretsize):
        # qzsecretcomment
        y = self.qzsecretlayer(qzsecretx) * self.qzsecretscale
        print("qzsecretprint", qzsecretlabel)
        if self.qzsecrettag == "qzsecretattribute" and qzsecretlabel != "qzsecretbody":
            y = y + qzsecretsize
        if y.sum() > 3:
            y = y - 1
        if qzsecretlabel == "qzsecretlast":
            raise ValueError("qzsecretmessage " + os.environ["QZSECRETVARIABLE"])
        return qzsecrethome(y)


def example_inputs():
    x = torch.randn(2, 4)
    return [
        (x, "qzsecretargument", 1),
        (torch.randn(3, 4), "qzsecretargument2", {OTHER_NUMBER}),
        (x, "qzsecretlast", 1),
    ]
'''
PLACES = {
    "a path": "qzsecretfolder",
    "a docstring": "qzsecretdocstring",
    "a string in a function's body": "qzsecretbody",
    "a comment": "qzsecretcomment",
    "an argument's value": "qzsecretargument",
    "another argument's value": OTHER_NUMBER,
    "an attribute's value": "qzsecretattribute",
    "another attribute's value": NUMBER,
    "printed text": "qzsecretprint",
    "an environment variable": "qzsecretenvironment",
    "a folder of the environment, which torch's config repeats": "qzsecretcache",
    "a file in the home folder": "qzsecrethomefile",
    "its text": "qzsecrethomeprint",
    "a message": "qzsecretmessage",
    "names": "qzsecretlayer",
}


def write_program(folder):
    """Write the program; its file, and the environment variables that it is to be run with."""
    program, home = folder / "qzsecretfolder" / "qzsecretmodel.py", folder / "qzsecretuser"
    program.parent.mkdir()
    home.mkdir()
    program.write_text(PROGRAM)
    (home / "qzsecrethomefile.py").write_text(HOME_FILE)
    variables = {"HOME": str(home), "QZSECRETVARIABLE": "qzsecretenvironment"}
    return program, variables | {
        "TORCHINDUCTOR_AUTOHEURISTIC_LOG_PATH": str(folder / "qzsecretcache")
    }


def texts_of(bundle):
    """Everything in a bundle as text, lower case: names, files, and what is packed in the page."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(bundle.read_bytes())) as archive:
        for name in archive.namelist():
            text = archive.read(name).decode("utf-8", "replace")
            found[name] = (name + text).lower()
            for blob, packed in re.findall(
                r'<script type="application/octet-stream" id="(.+?)">(.+?)</script>', text
            ):
                found[f"{name}#{blob}"] = gzip.decompress(base64.b64decode(packed)).decode().lower()
    return found
