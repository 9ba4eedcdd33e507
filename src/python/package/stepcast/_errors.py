"""What a question may raise."""

from typing import Any, Dict, Sequence


class InputError(ValueError):
    """Mistakes in the input; `diagnostics` lists them."""

    def __init__(self, diagnostics: Sequence[Dict[str, Any]]) -> None:
        self.diagnostics = list(diagnostics)
        super().__init__("\n".join(_line(mistake) for mistake in self.diagnostics))


class Failure(RuntimeError):
    """What failed, in a sentence."""


def _line(mistake: Dict[str, Any]) -> str:
    place = mistake["file"]
    if mistake["line"] > 0:
        place += f":{mistake['line']}:{mistake['column']}"
    text = f"{place}: {mistake['message']} [{mistake['code']}]"
    return f"{text}; {mistake['hint']}" if mistake["hint"] else text
