"""The parts of an experiment: each is written when it is finished, and not computed again the next time."""

import csv
import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import madbayes
from madbayes.display.figures import png_of
from madbayes.experiments.page import Section, render
from madbayes.files import plain, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANIFEST, PAGE, VERDICT = "madbayes.json", "report.html", "verdict.txt"
DPI = 110

Rows = list[dict[str, Any]]
Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


class Findings(NamedTuple):
    """What a part found."""

    verdict: list[str]  # sentences
    tables: Mapping[str, Rows]
    figures: Mapping[str, "Figure"]
    values: Mapping[str, Any] = {}  # what programs may want beside the tables


class Work:
    """What a part has while it runs: somebody to report to, and a place for pieces that take long."""

    def __init__(self, progress: Progress, folder: "Folder", fingerprint: str) -> None:
        self.progress, self._folder, self._fingerprint = progress, folder, fingerprint

    def piece(self, name: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` gives, in plain values; from the file if the same part has been here before."""
        file = f"piece-{name}.json"
        if (kept := self._folder.read_json(file)) and kept["fingerprint"] == self._fingerprint:
            return kept["value"]
        value = plain(compute())
        self._folder.write_json(file, {"fingerprint": self._fingerprint, "value": value})
        return value


@dataclass(frozen=True)
class Part:
    """One table or figure."""

    name: str
    title: str
    run: Callable[[Work], Findings]
    settings: Mapping[str, Any] = field(default_factory=dict)  # all that its findings depend on, beside the data


@dataclass(frozen=True)
class Experiment:
    """Parts that look at the same data."""

    name: str
    title: str
    about: list[str]  # sentences: what the data are and where they come from
    data: str  # fingerprint of the data
    parts: Sequence[Part]

    def fingerprint(self, part: Part) -> str:
        """Equal for equal settings, data and code."""
        words = [code_digest(), self.name, part.name, plain(part.settings), self.data]
        return sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()


class Outcome(NamedTuple):
    """An experiment that has been run."""

    verdict: list[str]
    page: Path
    computed: list[str]  # names of the parts that were computed
    kept: list[str]  # and of those that were there already


class Folder:
    """Where an experiment goes. Files that it has not written itself are never replaced."""

    def __init__(self, path: str | Path, experiment: str) -> None:
        self.path = Path(path)
        self.manifest = check_folder(self.path, experiment) or {"experiment": experiment, "files": [], "parts": {}}
        self.path.mkdir(parents=True, exist_ok=True)
        self._save_manifest()

    def _save_manifest(self) -> None:
        write_whole(self.path / MANIFEST, json.dumps(self.manifest, indent=1).encode())

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        if name not in self.manifest["files"]:
            if (self.path / name).exists():
                raise FileExistsError(f"{str(self.path / name)!r} was not written by madbayes and is left alone")
            # First the claim, then the file: otherwise one that is cut off in between would pass for a stranger's.
            self.manifest["files"].append(name)
            self._save_manifest()
        write_whole(self.path / name, content)

    def write_json(self, name: str, value: Any) -> None:
        """Write plain values."""
        self.write(name, json.dumps(value, indent=1, allow_nan=False).encode())

    def read_json(self, name: str) -> Any:
        """What was written; None where there is nothing that can be read."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def finish(self, part: str, fingerprint: str, files: list[str]) -> None:
        """Note that a part is complete, and remove what an earlier one has left behind."""
        for name in set(self.manifest["parts"].get(part, {"files": []})["files"]) - set(files):
            (self.path / name).unlink(missing_ok=True)
        self.manifest["parts"][part] = {"fingerprint": fingerprint, "files": files}
        self._save_manifest()

    def has(self, part: str, fingerprint: str) -> bool:
        """Whether the part has been finished with these settings, and all its files are still there."""
        known = self.manifest["parts"].get(part)
        if known is None or known["fingerprint"] != fingerprint:
            return False
        return all((self.path / name).is_file() for name in known["files"])


def check_folder(path: Path, experiment: str) -> dict[str, Any] | None:
    """What is known about earlier results in a folder, if any; an error where others' files are."""
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{str(path)!r} is a file: name a folder for the results")
    known = read_manifest(path)
    if known is None and path.is_dir() and any(path.iterdir()):
        raise FileExistsError(f"{str(path)!r} is not empty and has no results of madbayes in it: name another folder")
    if known is not None and known["experiment"] != experiment:
        raise FileExistsError(
            f"{str(path)!r} has the results of {known['experiment']!r}, not of {experiment!r}: name another folder"
        )
    return known


def read_manifest(path: Path) -> dict[str, Any] | None:
    """What a folder says about itself; None where it has never been one of ours."""
    try:
        found = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        return found if {"experiment", "files", "parts"} <= set(found) else None
    except (OSError, ValueError, TypeError):
        return None


@cache
def code_digest() -> str:
    """Fingerprint of the library: what other code has found is computed again."""
    digest = sha256()
    for path in sorted(Path(madbayes.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def data_digest(*arrays: NDArray) -> str:
    """Fingerprint of some arrays."""
    digest = sha256()
    for array in arrays:
        digest.update(str((array.shape, array.dtype.str)).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def run(experiment: Experiment, out: str | Path, progress: Progress | None = None) -> Outcome:
    """Compute what is not there yet, write it part by part, and make the page.

    Parameters
    ----------
    experiment : Experiment
    out : path
        Folder for the results; it may not exist yet, be empty, or hold an earlier run of the same experiment.
    progress : callable, optional
        Called with (words, done, total).

    Returns
    -------
    Outcome
    """
    folder, report = Folder(out, experiment.name), progress or (lambda words, done, total: None)
    computed: list[str] = []
    for part in experiment.parts:
        fingerprint = experiment.fingerprint(part)
        if not folder.has(part.name, fingerprint):
            compute(part, fingerprint, folder, report)
            computed.append(part.name)
            write_page(experiment, folder)
    verdict = write_page(experiment, folder)
    kept = [part.name for part in experiment.parts if part.name not in computed]
    return Outcome(verdict, folder.path / PAGE, computed, kept)


def compute(part: Part, fingerprint: str, folder: Folder, progress: Progress) -> None:
    """Run a part and write what it found."""
    progress(part.title, 0, 0)
    began = perf_counter()
    with cut_short_is_stopped():
        findings = part.run(Work(progress, folder, fingerprint))
    files = {f"{part.name}-{name.replace(' ', '-')}.csv": as_csv(rows) for name, rows in findings.tables.items()}
    pictures = {f"{part.name}-{number}.png": png_of(f, DPI) for number, f in enumerate(findings.figures.values(), 1)}
    record = {
        "title": part.title,
        "settings": part.settings,
        "seconds": round(perf_counter() - began, 3),
        "verdict": findings.verdict,
        "tables": findings.tables,
        "figures": dict(zip(pictures, findings.figures, strict=True)),
        "values": findings.values,
    }
    for name, content in {**files, **pictures}.items():
        folder.write(name, content)
    folder.write_json(f"{part.name}.json", plain(record))
    folder.finish(part.name, fingerprint, [*files, *pictures, f"{part.name}.json"])


@contextmanager
def cut_short_is_stopped() -> Iterator[None]:
    """Estimators keep the best of what they have when a user interrupts; such a part would not be the one asked for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="interrupted", category=UserWarning)
        try:
            yield
        except UserWarning as warning:
            if str(warning).startswith("interrupted"):
                raise KeyboardInterrupt from warning
            raise


def as_csv(rows: Rows) -> bytes:
    """A table as text, its columns those of the first row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain(rows))
    return text.getvalue().encode()


def write_page(experiment: Experiment, folder: Folder) -> list[str]:
    """Make the page and the verdict of all parts that are finished with the present settings; the verdict."""
    sections = []
    for part in experiment.parts:
        if folder.has(part.name, experiment.fingerprint(part)):
            record = folder.read_json(f"{part.name}.json")
            pictures = {words: (folder.path / name).read_bytes() for name, words in record["figures"].items()}
            sections.append(Section(record["title"], record["verdict"], record["tables"], pictures))
    verdict = [sentence for section in sections for sentence in section.verdict]
    n_missing = len(experiment.parts) - len(sections)
    about = experiment.about + ([f"Not finished yet: {n_missing} of {len(experiment.parts)} parts."] * (n_missing > 0))
    folder.write(PAGE, render(experiment.title, about, sections).encode())
    folder.write(VERDICT, ("\n".join([*about, *verdict]) + "\n").encode())
    return verdict
