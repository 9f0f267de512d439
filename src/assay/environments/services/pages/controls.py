"""Controls of forms as HTML: each has a label, its description, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from assay.environments.services.files import MOST_FILE

from .fields import COUNT, MOST_ENTRIES, PREFIX, Field, FormData, Option, options_of, shows_checkbox, write_texts
from .markup import Html, element, join
from .theme import Theme

ADD: Final = "_add"
"""Name of the buttons that show one more entry of a list; their value is the list's path."""
_MOST_RADIOS: Final = 6
_HINTS: Final = {
    "amount": "Amount with two decimals, such as 39.90",
    "date": "Date as YYYY-MM-DD",
    "time": "Time as YYYY-MM-DDTHH:MM",
    "json": "Written as JSON",
    "file": f"A file of at most {MOST_FILE >> 10} KiB",
}


class Controls(NamedTuple):
    """Renders the fields of one form."""

    theme: Theme
    data: FormData = FormData()
    problems: Mapping[str, str] = {}
    scope: str = ""
    """Beginning of the identifiers of elements, which differs between the forms of a page."""

    def render(self, fields: Sequence[Field]) -> Html:
        """Returns all fields. A form that was not submitted shows defaults."""
        texts = {**write_texts(fields, {}), **self.data.texts}
        data = self.data if self.data.is_submitted else FormData(texts)
        filled = self._replace(data=data)
        box = {"class": self.theme.name("fields")}
        return element(self.theme.box, box, [filled._field(field, PREFIX + field.name) for field in fields])

    def _field(self, field: Field, path: str) -> Html:
        if field.widget == "list":
            return self._list(field, path)
        if field.widget == "file":
            return self._file(field, path)
        if field.widget == "group":
            return self._group(field, path)
        if field.widget == "flag" and shows_checkbox(field):
            return self._checkbox(field, path)
        options = options_of(field)
        if options and self.theme.choices == "radio" and len(options) <= _MOST_RADIOS:
            return self._radios(field, path, options)
        control = self._select(field, path, options) if options else self._input(field, path)
        label = self._label_text(field)
        around = self.theme.labels == "around"
        named = (
            element("label", {"for": self._identifier(path)}, label, control)
            if around
            else join(element("label", {"for": self._identifier(path)}, label), control)
        )
        return element("div", {"class": self.theme.name("field")}, named, self._notes(field, path))

    def _identifier(self, path: str) -> str:
        return self.scope + path.replace("/", "-").replace(" ", "-")

    def _label_text(self, field: Field) -> str:
        return field.label if field.is_required else f"{field.label} (optional)"

    def _described(self, field: Field, path: str) -> dict[str, str | bool | None]:
        identifier = self._identifier(path)
        notes = [f"{identifier}-hint"] if self._hint(field) else []
        notes += [f"{identifier}-problem"] if path in self.problems else []
        return {
            "id": identifier,
            "name": path,
            "aria-describedby": " ".join(notes) or None,
            "aria-invalid": "true" if path in self.problems else None,
        }

    def _hint(self, field: Field) -> str:
        described = "" if field.widget == "file" else field.description  # which says how tools name files
        return " ".join(part.rstrip(".") + "." for part in (described, _HINTS.get(field.widget, "")) if part)

    def _notes(self, field: Field, path: str) -> Html:
        identifier, hint, problem = self._identifier(path), self._hint(field), self.problems.get(path)
        return join(
            element("p", {"class": self.theme.name("hint"), "id": f"{identifier}-hint"}, hint) if hint else None,
            element("p", {"class": self.theme.name("problem"), "id": f"{identifier}-problem"}, problem)
            if problem
            else None,
        )

    def _input(self, field: Field, path: str) -> Html:
        attributes, text = self._described(field, path), self.data.texts.get(path, "")
        if field.widget in ("area", "json"):
            return element("textarea", attributes, text)
        kind = "text"
        if self.theme.dates == "native" and field.widget in ("date", "time"):
            kind = "date" if field.widget == "date" else "datetime-local"
        mode = {"integer": "numeric", "amount": "decimal", "number": "decimal"}.get(field.widget)
        return element("input", {**attributes, "type": kind, "inputmode": mode, "value": text, "autocomplete": "off"})

    def _file(self, field: Field, path: str) -> Html:
        """Returns a file field. A file that was sent with a form that is shown again stays chosen by a hidden field."""
        chosen = self.data.texts.get(path, "")
        label = element("label", {"for": self._identifier(path)}, self._label_text(field))
        control = element("input", {**self._described(field, path), "type": "file"})
        before = element("input", {"type": "hidden", "name": path, "value": chosen}) if chosen else None
        said = element("p", {"class": self.theme.name("hint")}, f"{chosen} was sent; choose a file to replace it.")
        box = {"class": self.theme.name("field")}
        return element("div", box, label, before, control, said if chosen else None, self._notes(field, path))

    def _select(self, field: Field, path: str, options: Sequence[Option]) -> Html:
        chosen = self.data.texts.get(path, "")
        shown = [element("option", {"value": "", "selected": not chosen}, _none_label(field))]
        shown += [
            element("option", {"value": option.text, "selected": option.text == chosen}, option.label)
            for option in options
        ]
        return element("select", self._described(field, path), shown)

    def _radios(self, field: Field, path: str, options: Sequence[Option]) -> Html:
        identifier, chosen = self._identifier(path), self.data.texts.get(path, "")
        every = (
            [*options]
            if field.is_required and not field.is_nullable
            else [Option("", _none_label(field), None), *options]
        )
        shown = []
        for at, option in enumerate(every):
            own = f"{identifier}-{at}"
            attributes = {"type": "radio", "id": own, "name": path, "value": option.text}
            radio = element("input", {**attributes, "checked": option.text == chosen})
            shown.append(element("div", None, radio, element("label", {"for": own}, option.label)))
        described = self._described(field, path)
        legend = element("legend", None, self._label_text(field))
        group = {"id": identifier, "aria-describedby": described["aria-describedby"]}
        notes = self._notes(field, path)
        return element("fieldset", {**group, "class": self.theme.name("choice")}, legend, shown, notes)

    def _checkbox(self, field: Field, path: str) -> Html:
        attributes = {**self._described(field, path), "type": "checkbox", "value": "on"}
        box = element("input", {**attributes, "checked": self.data.texts.get(path) == "on"})
        label = element("label", {"for": self._identifier(path)}, field.label)
        return element("div", None, box, label, self._notes(field, path))

    def _group(self, field: Field, path: str) -> Html:
        inner = [self._field(part, f"{path}/{part.name}") for part in field.fields]
        return element(
            "fieldset", None, element("legend", None, self._label_text(field)), self._notes(field, path), inner
        )

    def _list(self, field: Field, path: str) -> Html:
        assert field.item is not None
        count = min(max(self.data.count(path), 1), MOST_ENTRIES)
        entries = [
            self._field(field.item._replace(label=f"{field.label} {at + 1}", description=""), f"{path}/{at}")
            for at in range(count)
        ]
        hidden = element("input", {"type": "hidden", "name": COUNT + path, "value": count})
        quiet = {"class": self.theme.name("quiet"), "type": "submit", "name": ADD, "value": path}
        label = f"{self.theme.add}: {field.label}"
        more = element("button", quiet, label) if count < MOST_ENTRIES else None
        legend = element("legend", None, self._label_text(field))
        return element("fieldset", None, legend, self._notes(field, path), entries, hidden, more)


def _none_label(field: Field) -> str:
    return "None" if field.is_required and field.is_nullable else "Choose" if field.is_required else "Any"
