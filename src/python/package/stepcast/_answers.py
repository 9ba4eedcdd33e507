"""Answers: the documents that commands print with --json, and their rows as tables."""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping

if TYPE_CHECKING:
    import pandas


class Answer(Dict[str, Any]):
    """The document that a command prints with --json."""

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row, a column for each figure: "memory.peak_bytes"."""
        return _dataframe([self])


class Rows(Answer):
    """A document with a list of rows, such as the combinations of a sweep."""

    def __init__(self, document: Mapping[str, Any], key: str) -> None:
        super().__init__(document)
        self._key = key

    def to_dataframe(self) -> "pandas.DataFrame":
        """A row for each of them, a column for each figure; settings by their keys alone."""
        return _dataframe(self[self._key])


def _dataframe(rows: List[Mapping[str, Any]]) -> "pandas.DataFrame":
    import pandas  # no dependency of the package: only this needs it
    return pandas.DataFrame([_flat(row) for row in rows])


def _flat(row: Mapping[str, Any], above: str = "") -> Dict[str, Any]:
    """The figures of a row by dotted keys. What it echoes of its scenario, and its lists, are left
    out: they are no figures of one row."""
    figures: Dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            if above == "" and key in ("resolved", "run"):
                continue
            # Settings already have dotted keys.
            inside = "" if key == "set" else f"{above}{key}."
            figures.update(_flat(value, inside))
        elif not isinstance(value, list):
            figures[above + key] = value
    return figures
