"""The distribution `kopf` that stands for this toolkit: its metadata, and its wheel.

Packages look for it by `importlib.metadata`, by entry points, and by their own requirements (`kopf>=1.36`). Its version
is that of the Kopf whose behaviour we have. The wheel has three small files; the content of `import kopf` comes from
ctl.
"""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from importlib.metadata import Distribution, DistributionFinder
from os import PathLike
from pathlib import Path
from typing import Final

from .._version import KOPF_VERSION, VERSION

OURS: Final = "ctl-toolkit"
"""The name of our own distribution. A distribution `kopf` that requires it is the alias, not Kopf."""

_INFO: Final = f"kopf-{KOPF_VERSION}.dist-info"
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)

_METADATA: Final = f"""\
Metadata-Version: 2.1
Name: kopf
Version: {KOPF_VERSION}
Summary: `import kopf` and the command `kopf` of {OURS}: an alias, not Kopf itself
License: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: {OURS} >={VERSION}
Provides-Extra: uvloop
Requires-Dist: {OURS}[uvloop] ; extra == "uvloop"
Provides-Extra: full-auth
Requires-Dist: pykube-ng ; extra == "full-auth"
Requires-Dist: {OURS}[client] ; extra == "full-auth"
Provides-Extra: dev
Requires-Dist: {OURS}[webhooks] ; extra == "dev"
"""

_ABOUT: Final[Mapping[str, str]] = {
    "METADATA": _METADATA,
    "WHEEL": f"Wheel-Version: 1.0\nGenerator: ctl {VERSION}\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "entry_points.txt": "[console_scripts]\nkopf = ctl.cli.main:entry_as_kopf\n",
    "top_level.txt": "kopf\n",
}

_CODE: Final[Mapping[str, str]] = {
    "kopf/__init__.py": f'''\
"""`import kopf` gives ctl, which runs operators of Kopf {KOPF_VERSION}. Made by `ctl alias`; `ctl alias remove` removes it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctl import *

    __version_tuple__: tuple[int, ...]
    __commit_id__: str | None
else:
    try:
        from ctl.cli.alias import take_place
    except ModuleNotFoundError as exc:
        if exc.name != "ctl":
            raise
        raise ImportError(
            "This `kopf` is an alias of ctl, and ctl is not installed here. Install {OURS}, or take the alias away "
            "(pip uninstall kopf) and install Kopf.",
            name="kopf",
        ) from exc
    take_place(__name__)
''',
    "kopf/__main__.py": '''\
"""`python -m kopf` is the command `kopf`."""

from ctl.cli.main import entry_as_kopf

entry_as_kopf()
''',
    "kopf/py.typed": "",
}


class AliasDistribution(Distribution):
    """The distribution `kopf` for `importlib.metadata` while the alias is active and not installed."""

    def read_text(self, filename: str) -> str | None:
        """A file of the metadata."""
        return _ABOUT.get(filename)

    def locate_file(self, path: str | PathLike[str]) -> Path:
        """Where a file would be."""
        return Path(__file__).parent / path

    @classmethod
    def asked(cls, context: DistributionFinder.Context | None) -> "list[AliasDistribution]":
        """The distribution, for a search by its name or for all distributions of the process; not for a search in
        folders.
        """
        given = vars(context) if context is not None else {}
        name = given.get("name")
        return [cls()] if (name is None or name.lower() == "kopf") and "path" not in given else []


def is_alias(found: Distribution) -> bool:
    """Whether a distribution called `kopf` is ours."""
    return any(text.replace("_", "-").startswith(OURS) for text in found.requires or ())


def write_wheel(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path. Its bytes are the same each time. Raises OSError."""
    path = folder / f"kopf-{KOPF_VERSION}-py3-none-any.whl"
    files = {**_CODE, **{f"{_INFO}/{name}": text for name, text in _ABOUT.items()}}
    record = f"{_INFO}/RECORD"
    files[record] = "".join([*(f"{name},{_hash(text)},{len(text)}\n" for name, text in files.items()), f"{record},,\n"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return path


def _hash(text: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
