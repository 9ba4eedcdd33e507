"""The documents that commands print with --json, and pandas tables of their rows."""

from typing import TYPE_CHECKING, Any, Dict, List, Mapping

if TYPE_CHECKING:
    import pandas


class Answer(Dict[str, Any]):
    """The document that a command prints with --json."""

    def to_dataframe(self) -> "pandas.DataFrame":
        """Returns a table with one row, and one column per value, such as "memory.peak_bytes"."""
        return _dataframe([self])


class Rows(Answer):
    """A document with a list of rows, such as the combinations of a sweep."""

    def __init__(self, document: Mapping[str, Any], key: str) -> None:
        super().__init__(document)
        self._key = key

    def to_dataframe(self) -> "pandas.DataFrame":
        """Returns a table with one column per value. A setting's column has the name of its key."""
        return _dataframe(self[self._key])


def _dataframe(rows: List[Mapping[str, Any]]) -> "pandas.DataFrame":
    import pandas  # optional: only tables need it
    return pandas.DataFrame([_flat(row) for row in rows])


def _flat(row: Mapping[str, Any], above: str = "") -> Dict[str, Any]:
    """Returns the values of a row by dotted keys, without lists and without the scenario's settings
    in `resolved` and `run`."""
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
