"""The exceptions that a call may raise."""

from typing import Any, Dict, Sequence


class InputError(ValueError):
    """Mistakes in the input, with their positions and hints in `diagnostics`."""

    def __init__(self, diagnostics: Sequence[Dict[str, Any]]) -> None:
        self.diagnostics = list(diagnostics)
        super().__init__("\n".join(_line(mistake) for mistake in self.diagnostics))


class Failure(RuntimeError):
    """A failure that is not a mistake in the input. The message is a sentence."""


def _line(mistake: Dict[str, Any]) -> str:
    place = mistake["file"]
    if mistake["line"] > 0:
        place += f":{mistake['line']}:{mistake['column']}"
    text = f"{place}: {mistake['message']} [{mistake['code']}]"
    return f"{text}; {mistake['hint']}" if mistake["hint"] else text
