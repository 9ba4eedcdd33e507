"""Forecasts compared with measurements: the table of all cases, and the summary in docs/accuracy/emulated-cluster.md."""

import dataclasses
import pathlib
import textwrap


@dataclasses.dataclass(frozen=True)
class Case:
    """One forecast and what was measured for it, in seconds per step."""
    speed: str      # of the links, as `tools/cluster --bandwidth` takes it
    model: str
    plan: str
    forecast: float
    measured: float
    # Cases that differ only in bucket size share a family; None: not one of those.
    family: str | None = None

    @property
    def error(self):
        """Percent of the measured time; positive: the forecast is too slow."""
        return 100 * (self.forecast / self.measured - 1)


def mean_error(cases):
    return sum(abs(case.error) for case in cases) / len(cases)


def worst(cases):
    return max(cases, key=lambda case: abs(case.error))


def bucket_choices(cases):
    """Per family: the case forecast to be the best, and how many percent its measured time lies
    above that of the best measured case."""
    families = {}
    for case in cases:
        if case.family is not None:
            families.setdefault((case.speed, case.model, case.family), []).append(case)
    choices = []
    for members in families.values():
        chosen = min(members, key=lambda case: case.forecast)
        best = min(members, key=lambda case: case.measured)
        choices.append((chosen, best, 100 * (chosen.measured / best.measured - 1)))
    return choices


def table(header, right, rows):
    """In Markdown; `right` says which columns are aligned to the right."""
    width = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells):
        return "| " + " | ".join(cell.rjust(w) if r else cell.ljust(w)
                                 for cell, w, r in zip(cells, width, right)) + " |"

    rule = "|" + "|".join("-" * (w + 1) + ":" if r else "-" * (w + 2)
                          for w, r in zip(width, right)) + "|"
    return "\n".join([line(header), rule, *map(line, rows)])


def markdown(cases):
    return table(("links", "model", "plan", "forecast", "measured", "error"),
                 (False, False, False, True, True, True),
                 [(c.speed, c.model, c.plan, f"{c.forecast:.4f} s", f"{c.measured:.4f} s",
                   f"{c.error:+.1f} %") for c in cases])


def markdown_choices(cases):
    """What following the forecast costs, for each family of bucket sizes."""
    return table(("links", "model", "chosen by forecast", "best measured", "cost"),
                 (False, False, False, False, True),
                 [(chosen.speed, chosen.model, chosen.plan,
                   "the same" if chosen is best else best.plan, f"{loss:.1f} %")
                  for chosen, best, loss in bucket_choices(cases)])


def summary(cases):
    bad = worst(cases)
    lines = [f"{len(cases)} cases. The mean absolute error is {mean_error(cases):.2f} %, and the "
             f"worst error is {bad.error:+.1f} % ({bad.speed}, {bad.model}, {bad.plan})."]
    choices = bucket_choices(cases)
    if choices:
        chosen, best, loss = max(choices, key=lambda choice: choice[2])
        right = sum(1 for c, b, _ in choices if c is b)
        lines.append(
            f"In {right} of {len(choices)} series of bucket sizes, the size with the fastest "
            f"forecast also had the fastest measured step. In the worst series, the measured step of "
            f"this size was {loss:.1f} % longer than the fastest step. (Series: {chosen.speed}, "
            f"{chosen.model}. Sizes: {chosen.plan} instead of {best.plan}.)")
    return "\n".join(textwrap.fill(line, 100, break_on_hyphens=False) for line in lines)


def text(cases):
    """Every case, the summary, and what following the forecast costs."""
    parts = [markdown(cases), summary(cases)]
    if bucket_choices(cases):
        parts.append(markdown_choices(cases))
    return "\n\n".join(parts)


def markdown_groups(cases):
    """One row for all cases with the same links and model."""
    groups = {}
    for case in cases:
        groups.setdefault((case.speed, case.model), []).append(case)
    return table(("links", "model", "cases", "mean error", "worst", "plan with the worst error"),
                 (False, False, True, True, True, False),
                 [(speed, model, str(len(members)), f"{mean_error(members):.1f} %",
                   f"{worst(members).error:+.1f} %", worst(members).plan)
                  for (speed, model), members in groups.items()])


def text_of_document(cases):
    """The section of docs/accuracy/emulated-cluster.md."""
    return f"{markdown_groups(cases)}\n\n{summary(cases)}"


def update_document(path, section, text):
    """Puts `text` between `<!-- SECTION: begin -->` and `<!-- SECTION: end -->`."""
    document = pathlib.Path(path)
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    old = document.read_text()
    if old.count(begin) != 1 or old.count(end) != 1:
        raise SystemExit(f"{path}: there is not exactly one section from {begin} to {end}")
    before, rest = old.split(begin)
    after = rest.split(end)[1]
    partial = document.with_name(document.name + ".partial")
    partial.write_text(f"{before}{begin}\n{text}\n{end}{after}")
    partial.rename(document)
