"""Checks the licences of the Python packages that Brimful's extras and tests ask for, and of all that these ask for.

In: the packages that are installed where it runs (`make audit`: the environment of the tests) and their own metadata. Out: what is
not allowed, and exit code 1 if anything is. Extras that are not installed are named, not checked. Nothing is asked from the network.
"""

import re
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
#: As packages write them, in an expression, a classifier or a line of their own. None of them reaches the user's code.
ALLOWED = re.compile(
    r"0BSD|Apache([ -]Software)?( License)?[ ,-]*(Version )?(2\.0)?( License)?|(3-Clause )?(The )?(New )?BSD([ -][23]-Clause)?( License)?"
    r"|CC0-1\.0|CNRI-Python|ISC( License)?( \(ISCL\))?|MIT(-CMU)?( License)?|PSF-2\.0|Python Software Foundation License|The Unlicense.*|Zlib"
    # Reaches changes of its own files only.
    r"|MPL-2\.0|Mozilla Public License 2\.0 \(MPL 2\.0\)",
    re.IGNORECASE,
)
#: Taken as they are, with the reason.
EXCEPTIONS = {
    "namex": "Apache-2.0 in its repository; its package does not say so",
    "cuda-toolkit": "names NVIDIA's libraries, and has no code",
}
#: NVIDIA's libraries, which PyTorch's packages for Linux bring. Brimful passes none of them on.
VENDOR = re.compile(r"nvidia-.*")


def main() -> int:
    checked, absent = closure()
    refused = {name: licence for name, licence in checked.items() if not is_allowed(name, licence)}
    for name, licence in sorted(refused.items()):
        print(f"{name}: {licence or 'says no licence'}")
    print(f"{len(checked)} packages, {len(refused)} not allowed. Not installed, not checked: {', '.join(sorted(absent)) or 'none'}.")
    return 1 if refused else 0


def closure() -> tuple[dict, set]:
    """The licence of each package that is asked for, directly or not, and the names that are not installed."""
    lines = (ROOT / "tests" / "requirements.txt").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    brimful = metadata.distribution("brimful")
    extras = brimful.metadata.get_all("Provides-Extra") or []
    wanted.append(Requirement(f"brimful[{','.join(extras)}]"))
    checked, absent, seen = {}, set(), set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        if (name, *sorted(requirement.extras)) in seen:
            continue
        seen.add((name, *sorted(requirement.extras)))
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            absent.add(name)
            continue
        checked[name] = licence_of(found.metadata)
        for line in found.requires or []:
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in requirement.extras | {""}):
                wanted.append(needed)
    return checked, absent


def licence_of(about) -> str:
    """Its expression; where it has none, its classifiers, which all hold; else the line that came before these."""
    if about.get("License-Expression"):
        return about["License-Expression"]
    classifiers = [line.rsplit("::", 1)[1].strip() for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    # "OSI Approved" alone does not say which.
    named = [name for name in classifiers if name != "OSI Approved"]
    line, *_ = [*(about.get("License") or "").strip().splitlines(), ""]
    return " AND ".join(named) or line


def is_allowed(name: str, licence: str) -> bool:
    """Whether every part of "A AND B", and one of "A OR B", is on the list; brackets are not used so far."""
    if name in EXCEPTIONS or VENDOR.fullmatch(name):
        return True
    return any(all(ALLOWED.fullmatch(part.strip()) for part in way.split(" AND ")) for way in (licence or "").split(" OR "))


if __name__ == "__main__":
    sys.exit(main())
