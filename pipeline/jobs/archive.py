"""The job archive as a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pipeline.archive.job import BATCH_ROWS, Archived, Told, archive_messages
from pipeline.jobs.settings import EXTRA, JOURNAL_OPTIONS, MissingExtraError, runner, source_of
from pipeline.log.options import TOPIC_OPTIONS, named_options, number_option
from pipeline.options import OptionError, nearest

ARCHIVE_OPTIONS: Final = (
    *TOPIC_OPTIONS, *JOURNAL_OPTIONS, "name", "columns", "codec", "compact", "compactBytes",
)  # fmt: skip
COMPACT_OCTETS: Final = 256 * 1024 * 1024
"""The octets up to which a compaction joins files."""


class ArchiveOutcome(NamedTuple):
    """The outcome of the job. `compacted`: the numbers of files before and after, and of those removed."""

    added: Archived
    compacted: tuple[int, int, int] | None

    def as_json(self) -> dict[str, Any]:
        compacted = None
        if self.compacted is not None:
            compacted = dict(zip(("files_before", "files_after", "removed"), self.compacted, strict=True))
        return {**self.added._asdict(), "compacted": compacted}


def archive(
    table: str, options: Mapping[str, str], master: str | None = None, told: Told = lambda line: None
) -> ArchiveOutcome:
    """Archive what the source has now into the Delta table in a directory, which driver and executors see.

    Raises OptionError, MissingExtraError, ArchiveError, and as sources and tasks.
    """
    found = named_options(options, ARCHIVE_OPTIONS)
    try:
        from pipeline.archive.parquet import ARCHIVE_COLUMNS, CODECS, NEEDED, WritesPiece
        from pipeline.archive.table import DeltaArchive
    except ImportError as error:
        raise MissingExtraError(f"the job archive {EXTRA} ({error})") from error
    columns = _columns(found.get("columns"), NEEDED, ARCHIVE_COLUMNS)
    codec = found.get("codec", CODECS[0])
    if codec not in CODECS:
        raise OptionError(f"codec is one of {', '.join(CODECS)}, not {codec}")
    rows = number_option(found, "maxRows") or BATCH_ROWS
    compact_octets = number_option(found, "compactBytes") or COMPACT_OCTETS
    with runner(master) as run:
        source = source_of(found, run)
        store = DeltaArchive(table, found.get("name", "archive"), columns, codec)
        store.make()
        write = WritesPiece(store.directory, source, columns, codec)
        added = archive_messages(source, store, write, run, rows, told)
        compacted = store.compact(compact_octets) if found.get("compact") == "true" else None
    return ArchiveOutcome(added, compacted)


def _columns(text: str | None, needed: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """The columns of the archive. Raises OptionError."""
    if text is None:
        return list(known)
    names = [one.strip() for one in text.split(",") if one.strip()]
    for name in names:
        if name not in known:
            raise OptionError(f"an archive has no column {name}{nearest(name, known)}")
    return [name for name in known if name in names or name in needed]
