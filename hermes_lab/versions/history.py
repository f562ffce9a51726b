"""The history of a lab's configurations: versions v1.0, v1.1 ... that are only ever added to.

Reading needs no lock. A writer holds the lab's lock, names the parent that its change rests on, and is refused where
another version came meanwhile. A kill at any moment leaves the history with the new version or without it; what else
hangs on it (tags, the file for people, Git's index) is put right by the next writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermes_lab.config import AgentConfig
from hermes_lab.errors import ConfigError, HermesLabError, ImportFormatError, MissingError, WriteError
from hermes_lab.versions import content, kept, lookup, record
from hermes_lab.versions.difference import Difference, between
from hermes_lab.versions.errors import DamagedHistoryError
from hermes_lab.versions.line import Line
from hermes_lab.versions.record import Version


class Shown(NamedTuple):
    """A version with what it holds.

    Attributes:
        version: what it says about itself.
        config: the configuration.
        text: its file, as it was committed.
    """

    version: Version
    config: AgentConfig
    text: str


class Versions:
    """The versions of a lab's configuration, in the Git repository `configs/` of its folder.

    >>> import tempfile
    >>> versions = Versions(Path(tempfile.mkdtemp()))
    >>> first = versions.commit(AgentConfig(), parent=None, by="Li Wei", approver="王芳", message="A plain start")
    >>> first.name, versions.load("v1.0") == AgentConfig(), [one.name for one in versions.log()]
    ('v1.0', True, ['v1.0'])
    """

    def __init__(self, lab: Path) -> None:
        """Name the lab's folder; nothing is read or made yet."""
        self._lab = lab
        self._line = Line(lab / "configs")

    def log(self) -> tuple[Version, ...]:
        """Return all versions, the newest first; none where nothing was committed.

        Raises:
            DamagedHistoryError: a commit was lost or changed, or was not made by hermes-lab.
        """
        return tuple(reversed(self._line.read()))

    def latest(self) -> Version | None:
        """Return the last version; None where nothing was committed."""
        versions = self._line.read()
        return versions[-1] if versions else None

    def find(self, name: str) -> Version:
        """Return the version called `v1.3`, `latest`, or `c-...`: the newest with that content.

        Raises:
            MissingError: there is none.
            DamagedHistoryError: the history cannot be read.
        """
        return lookup.find(self._line.read(), name)

    def load(self, name: str) -> AgentConfig:
        """Return the configuration of a version, or one that only ran and is kept under its hash.

        Raises:
            MissingError: there is none.
            DamagedHistoryError: the history cannot be read.
            ConfigError: its file was edited, or a newer hermes-lab wrote it.
        """
        if content.is_hash_name(name):
            version = next((one for one in self.log() if one.config == name), None)
            if version is None:
                return kept.load(self._lab, name)
        else:
            version = self.find(name)
        return self._line.config(version)

    def hash_of(self, name: str) -> str:
        """Return the `c-...` that events carry for a version called `v1.3` or `latest`; any other name as it is.

        A name that the history does not hold is left as it is, too: imported events carry versions of their own.

        Raises:
            DamagedHistoryError: the history cannot be read.
        """
        if not lookup.is_line_name(name):
            return name
        try:
            return self.find(name).config
        except MissingError:
            return name

    def show(self, name: str) -> Shown:
        """Return a version with what it holds; see `find` and `load`."""
        version = self.find(name)
        return Shown(version, self._line.config(version), self._line.data(version).decode())

    def diff(self, old: str, new: str) -> Difference:
        """Return what is different between two versions, or configurations that are kept; see `load`."""
        return between(self.load(old), self.load(new), (old, new))

    def commit(
        self,
        config: AgentConfig,
        *,
        parent: str | None,
        by: str,
        approver: str,
        message: str,
        evidence: Sequence[str] = (),
        scores: Mapping[str, float | None] | None = None,
    ) -> Version:
        """Make a configuration the next version, and return that.

        The same commit tried again, as after a kill, adds nothing and returns what is there.

        Args:
            config: the whole configuration.
            parent: the version that it was made from, which must still be the last; None for the first.
            by: who proposes it.
            approver: who lets it in: a person, or a named rule.
            message: what changed and why.
            evidence: ids of the events that it rests on.
            scores: figures by name; None for an unknown one.

        Raises:
            StaleParentError: another version came meanwhile.
            ConfigError: it changes nothing; a secret is in it; nobody is named; the visible file was edited by hand.
            MissingError: there is no such parent.
            DamagedHistoryError: the history cannot be read, so nothing is added to it.
            BusyError, WriteError, PermissionDeniedError: the lock or the disk was not to be had.
        """
        draft = _draft(config, by=by, approver=approver, message=message, evidence=evidence, scores=scores or {})
        with self._line.writing() as versions:
            base = lookup.find(versions, parent).name if parent else None
            last = versions[-1] if versions else None
            tried = _numbered(draft, versions[:-1])
            if last is not None and base == last.parent and tried.says_the_same_as(last):
                return last
            if base != (last.name if last else None):
                raise lookup.stale(base, last)
            if last is not None and draft.config == last.config:
                raise ConfigError(
                    f"{last.name} holds this very configuration ({last.config}): there is nothing to commit"
                )
            return self._line.add(versions, _numbered(draft, versions), config)

    def rollback(
        self,
        to: str,
        *,
        by: str,
        reason: str,
        approver: str | None = None,
        evidence: Sequence[str] = (),
        scores: Mapping[str, float | None] | None = None,
    ) -> Version:
        """Bring an older version's content back as a new version, and return that; nothing is taken out of the history.

        Trying the same again, as after a kill, adds nothing and returns what is there.

        Args:
            to: the version to bring back.
            by: who asks for it.
            reason: why.
            approver: who lets it happen; None for the one who asks.
            evidence: ids of the events that show the harm.
            scores: figures by name.

        Raises:
            ConfigError: the last version holds that content already; see also `commit`.
            MissingError: there is no such version.
            DamagedHistoryError, BusyError, WriteError, PermissionDeniedError: as `commit`.
        """
        with self._line.writing() as versions:
            target = lookup.find(versions, to)
            config = self._line.config(target)
            draft = _draft(
                config, by=by, approver=approver or by, message=reason, evidence=evidence, scores=scores or {}
            )
            draft = msgspec.structs.replace(draft, restores=target.name)
            last = versions[-1]
            if last.restores and _numbered(draft, versions[:-1]).says_the_same_as(last):
                return last
            if last.config == target.config:
                raise ConfigError(f"{last.name} holds what {target.name} holds ({last.config}): nothing to roll back")
            return self._line.add(versions, _numbered(draft, versions), config)

    def export(self, path: Path | str) -> int:
        """Write the whole history as a Git bundle, and return how many versions it holds.

        Raises:
            MissingError: there is no version yet.
            WriteError: there is a file already, or the disk did not take it.
            DamagedHistoryError: a version cannot be read; all are looked at.
        """
        target = Path(path).expanduser()
        versions = self._line.read()
        if not versions:
            raise MissingError(f"{self._line.folder} holds no version yet, so there is nothing to export")
        if target.exists():
            raise WriteError(f"{target} is there already: export to a new file")
        for version in versions:
            self._line.config(version)
        self._line.export(target, versions)
        return len(versions)

    def import_(self, path: Path | str) -> int:
        """Add what a bundle has beyond this lab's history, and return how many versions that were.

        Raises:
            ImportFormatError: it is no whole bundle of a configuration history.
            ConfigError: it holds another history than this lab's, which is never written over; or a secret.
            MissingError, BusyError, WriteError, PermissionDeniedError: it cannot be read, or the lab not written.
        """
        from hermes_lab.versions import bundle, chain

        source = Path(path).expanduser()
        found = bundle.read(source)
        try:
            theirs = chain.read(found.store, found.head)
            for version in theirs:
                content.refuse_secrets(content.plain(chain.config(found.store, version)), f"{version.name} in {source}")
        except DamagedHistoryError as error:
            raise ImportFormatError(f"{source} is no bundle of a configuration history: {error}") from None
        with self._line.writing() as ours:
            lookup.check_same_history(ours, theirs, source)
            new = theirs[len(ours) :]
            if new:
                self._line.adopt(theirs, chain.objects(found.store, new))
            return len(new)

    def problems(self) -> list[str]:
        """Return what is wrong with the history and the files beside it, each with what to do; empty where all is well.

        Every version's file is read and held against its hash.
        """
        found = []
        try:
            versions = self._line.read()
        except HermesLabError as error:
            return [str(error)]
        for version in versions:
            try:
                self._line.config(version)
            except HermesLabError as error:
                found.append(str(error))
        by_hand = self._line.edited(versions)
        found += [by_hand] if by_hand else []
        for file in sorted(self._line.folder.glob("c-*.json")):
            try:
                kept.load(self._lab, file.stem)
            except HermesLabError as error:
                found.append(str(error))
        return found


def _draft(
    config: AgentConfig,
    *,
    by: str,
    approver: str,
    message: str,
    evidence: Sequence[str],
    scores: Mapping[str, float | None],
) -> Version:
    """Return the version that is to be committed, after looking at all that is said; its name comes with the lock."""
    version = Version(
        name="",
        config=content.hash_name(config),
        message=record.clean_message(message),
        by=by.strip(),
        approver=approver.strip(),
        evidence=tuple(evidence),
        scores={name: None if score is None else float(score) for name, score in scores.items()},
    )
    record.check(version)
    content.refuse_secrets(content.plain(config), "the configuration")
    said = [version.message, version.by, version.approver, *version.evidence, *version.scores]
    content.refuse_secrets(said, "what is said about the version")
    return version


def _numbered(draft: Version, before: tuple[Version, ...]) -> Version:
    parent = before[-1].name if before else None
    return msgspec.structs.replace(draft, name=record.name_of(len(before)), parent=parent)
