"""Where the parts of a log lie within the `events/` folder of a lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hermes_lab.log import files


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of a log and the names within it.

    `live/<writer>.jsonl` are the files being appended to, `date=YYYY-MM-DD/<segment>.parquet` the sealed ones that
    `manifest.jsonl` lists, `spill/` the long payloads by content hash, `rejected/` the lines that were no events.
    """

    folder: Path

    @property
    def live(self) -> Path:
        """Folder of the live files."""
        return self.folder / "live"

    @property
    def spill(self) -> Path:
        """Folder of the spilled payloads."""
        return self.folder / "spill"

    @property
    def rejected(self) -> Path:
        """Folder of lines that could not be read as events, kept with their reasons."""
        return self.folder / "rejected"

    @property
    def manifest(self) -> Path:
        """The chained list of what was sealed, compacted and purged."""
        return self.folder / "manifest.jsonl"

    @property
    def pending(self) -> Path:
        """The step that is under way; it is finished or taken back after a crash."""
        return self.folder / "pending.json"

    @property
    def maintenance_lock(self) -> Path:
        """Held by whoever seals, compacts or purges."""
        return self.folder / ".maintenance.lock"

    @property
    def writers_lock(self) -> Path:
        """Held shared by every writer, alone by a purge."""
        return self.folder / ".writers.lock"

    @property
    def import_lock(self) -> Path:
        """Held by the import that is running."""
        return self.folder / ".import.lock"

    def create(self) -> None:
        """Make the folders that writing needs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._create(self.live)

    def create_spill(self) -> None:
        """Make the folder of the spilled payloads."""
        self._create(self.spill)

    def _create(self, folder: Path) -> None:
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            files.fsync_folder(self.folder)
