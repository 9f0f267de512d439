"""Site of a world: answers requests for pages, whose forms call the tools.

| request | response |
|---|---|
| `GET /` | the applications |
| `GET /APPLICATION` | its pages; its screen and the forms of what is possible there, if it shows one at a time |
| `GET /APPLICATION/TOOL` | the form of a tool; with a submitted form, the result of a tool that reads |
| `POST /APPLICATION/TOOL` | calls a tool and leads to its result, or shows what was wrong |
| `GET /-/records/KIND/ID` | what can be done with a record |
| `GET /-/done/N` | result of a call |
| `GET /-/files/DIGEST` | content of a file: a picture, or a text as it is written, or bytes to download |
| `GET /-/policy` | the rules |

Covered: everything that was sent or stored is text on a page and never markup; pages run no script, load nothing from
elsewhere, and cannot be framed (`Content-Security-Policy`); a form of another site calls nothing; a reload calls
nothing twice. Sizes and numbers of fields are bounded. A file is never served as markup: SVG and HTML are shown as
their text, in a sandbox without scripts, whatever their names say. One object is one attempt's site: it has that
attempt's tools and results.

Not covered: signing in. Whoever reaches the site is the agent.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec

from assay.environments.interface import Tools
from assay.environments.services.declaration import Scene
from assay.environments.services.files import PICTURES, UNKNOWN, FileStore, put_file
from assay.environments.services.http import STATUSES
from assay.environments.services.served_tools import ServedTools, ToolResult
from assay.http.messages import RequestHead, Response

from .catalog import Application, Catalog, PageTool, ShowsScenes, humanize, read_catalog
from .controls import ADD, Controls
from .fields import COUNT, SUBMITTED, Field, FormData, file_paths, read_arguments, read_fields, write_texts
from .layout import OWN, POLICY, Layout
from .markup import Attribute, Content, Html, element, join
from .multipart import MULTIPART, Upload, read_multipart
from .results import ResultView
from .theme import draw_theme

MOST_FIELDS: Final = 4_000
"""Controls in one form."""
MOST_RESULTS: Final = 500
"""Results of calls that can still be shown."""
CONFIRMED: Final = "_confirmed"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_FILE_HEADERS: Final[Mapping[str, str]] = {
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
}
"""Of contents of files, which are the words of others."""


class CallResult(msgspec.Struct, frozen=True):
    """Result of a call that changed something, for the page that it leads to."""

    tool: str
    text: str


class _Request(NamedTuple):
    """A request for the page of a tool."""

    tool: PageTool
    fields: tuple[Field, ...]
    data: FormData
    uploads: tuple[Upload, ...] = ()


class Site:
    """Answers requests for the pages of one attempt.

    Args:
        tools: The tools.
        served: The same tools as transports call them.
        seed: Seed of the theme.
        base: Path under which the site is, such as `/site`; empty for a site that is a whole origin.
    """

    def __init__(self, tools: Tools, served: ServedTools, seed: int = 0, base: str = "") -> None:
        self.catalog: Catalog = read_catalog(tools, served)
        self.theme = draw_theme(seed)
        self.base = base
        self.results: dict[int, CallResult] = {}
        """Results that can be shown, by number."""
        self.count = 0
        """Number of the last result."""
        self._served = served
        self._scenes = tools if isinstance(tools, ShowsScenes) else None
        self._layout = Layout(self.catalog, self.theme, base, bool(served.policy.strip()))
        self._files = FileStore(tools)
        self._view = ResultView(self.theme, self._record_address, self._file_address)
        self._forms = {name: read_fields(tool) for name, tool in self.catalog.tools.items()}

    def fields(self, name: str) -> tuple[Field, ...]:
        """Returns the fields of a tool's form. Raises `KeyError`."""
        return self._forms[name]

    def tool_address(self, tool: PageTool) -> str:
        """Returns the address of a tool's page."""
        return self._layout.tool_address(tool)

    def application_address(self, name: str) -> str:
        """Returns the address of an application's page."""
        return self._layout.application_address(name)

    async def answer(self, head: RequestHead, body: bytes = b"") -> Response:
        """Answers a request. Never raises but for cancellation."""
        path, _, query = head.target.partition("?")
        if not path.startswith(f"{self.base}/") and path != self.base:
            return self._problem(404, "Page not found", f"This site is at {self.base}/.")
        if head.method not in ("GET", "POST"):
            return self._problem(405, "Not possible", "Pages are read by GET and forms are sent by POST.", "GET, POST")
        if head.method == "POST" and (problem := _wrong_origin(head)):
            return self._problem(403, "Refused", problem)
        kind = head.headers.get("content-type", "")
        if head.method == "POST" and kind.partition(";")[0].strip() not in (FORM_TYPE, MULTIPART):
            return self._problem(415, "Refused", f"A form is sent as {FORM_TYPE} or {MULTIPART}.")
        uploads: tuple[Upload, ...] = ()
        try:
            if head.method == "POST" and kind.startswith(MULTIPART):
                pairs, uploads = read_multipart(kind, body)
            else:
                pairs = tuple(_read_pairs(query if head.method == "GET" else body.decode("utf-8", "replace")))
        except ValueError as exc:
            return self._problem(413, "Refused", f"The form cannot be read: {exc}")
        data = FormData.of(pairs)
        if data.entries > MOST_FIELDS:
            return self._problem(413, "Refused", f"The lists of a form have at most {MOST_FIELDS} entries.")
        parts = [unquote(part, errors="replace") for part in path[len(self.base) :].strip("/").split("/")]
        return await self._route(head.method, parts, data, uploads)

    async def _route(self, method: str, parts: list[str], data: FormData, uploads: tuple[Upload, ...]) -> Response:
        if parts[0] == OWN.strip("/"):
            return self._own_page(parts[1:])
        if parts == [""]:
            return self._home()
        application = next((one for one in self.catalog.applications if one.name == parts[0]), None)
        if application is None:
            return self._problem(404, "Page not found", "No page is here. Begin at the start page.")
        if len(parts) == 1:
            scene = self._scene_of(application.name)
            if scene is not None:
                return self._scene_page(application, scene)
            summary = element("p", None, application.summary) if application.summary else None
            overview = self._layout.overview(application)
            return self._page(application.title, summary, overview, application=application.name)
        tool = self.catalog.tools.get(parts[1])
        if tool is None or tool.application != application.name or len(parts) != 2:
            return self._problem(404, "Page not found", f"{application.title} has no such page.")
        request = _Request(tool, self._forms[tool.name], data, uploads)
        return await self._tool_page(request, is_sent=method == "POST")

    # Pages of the site itself.

    def _home(self) -> Response:
        sections = []
        for one in self.catalog.applications:
            link = element("a", {"href": self._layout.application_address(one.name)}, one.title)
            sections.append(join(element("h2", None, link), element("p", None, one.summary) if one.summary else None))
        return self._page("Start", sections)

    def _own_page(self, parts: list[str]) -> Response:
        if f"{OWN}{'/'.join(parts)}" == self._layout.style_path:
            return Response(200, self.theme.stylesheet(), {**HEADERS, "Content-Type": "text/css; charset=utf-8"})
        if f"{OWN}{'/'.join(parts)}" == POLICY and self._served.policy.strip():
            return self._page("Rules", element("div", {"class": self.theme.name("text")}, self._served.policy))
        if len(parts) == 3 and parts[0] == "records":
            return self._record_page(parts[1], parts[2])
        if len(parts) == 2 and parts[0] == "done" and parts[1].isdecimal() and len(parts[1]) < 10:
            return self._result_page(int(parts[1]))
        if len(parts) == 2 and parts[0] == "files":
            return self._file_response(parts[1])
        return self._problem(404, "Page not found", "No page is here. Begin at the start page.")

    def _record_address(self, kind: str, value: str) -> str | None:
        if not value or not self.catalog.taking(kind):
            return None
        return self._layout.address(f"{OWN}records/{quote(kind, safe='')}/{quote(value, safe='')}")

    def _record_page(self, kind: str, value: str) -> Response:
        links = []
        for tool, argument in self.catalog.taking(kind):
            address = self.tool_link(tool, {argument: value})
            links.append(element("li", None, element("a", {"href": address}, tool.title)))
        if not links:
            return self._problem(404, "Page not found", "No page is about such a record.")
        return self._page(f"{humanize(kind)} {value}", element("ul", None, links))

    def tool_link(self, tool: PageTool, arguments: Mapping[str, Any]) -> str:
        """Returns the address of a tool's page with a form that is filled in; of a tool that reads, its result, if
        nothing is missing."""
        fields = self._forms[tool.name]
        texts = {name: text for name, text in write_texts(fields, arguments).items() if text}
        if tool.is_view and tool.required <= arguments.keys():
            texts[SUBMITTED] = "1"
        return f"{self._layout.tool_address(tool)}?{urlencode(texts)}"

    def _result_page(self, number: int) -> Response:
        result = self.results.get(number)
        if result is None or result.tool not in self.catalog.tools:
            return self._problem(404, "Page not found", "This result is not shown any more.")
        tool = self.catalog.tools[result.tool]
        done = element("p", {"role": "status", "class": self.theme.name("note")}, f"Done: {tool.title}.")
        shown = None if result.text == "null" else self._view.render(tool, result.text)
        return self._page(f"{tool.title}: result", done, shown, application=tool.application)

    # Files.

    def _file_address(self, digest: str) -> str | None:
        return self._layout.address(f"{OWN}files/{quote(digest, safe='')}") if self._files.is_there else None

    def _file_response(self, digest: str) -> Response:
        file = self._files.content_of(digest)
        if file is None:
            return self._problem(404, "Page not found", "No file has this content.")
        headers = {**_FILE_HEADERS, "Content-Type": "text/plain; charset=utf-8"}
        if file.media_type in PICTURES:
            headers["Content-Type"] = file.media_type
        elif not file.is_text:
            headers |= {"Content-Type": UNKNOWN, "Content-Disposition": "attachment"}
        return Response(200, file.content, headers)

    async def _take_uploads(self, request: _Request) -> tuple[_Request, dict[str, str]]:
        """Stores the files of a form, and returns the form with their names in place of them, and what is wrong.

        A file that the world has under its name is stored already, so that a plan with it has the same calls by pages.
        """
        texts, problems = dict(request.data.texts), dict[str, str]()
        expected = set(file_paths(request.fields, request.data))
        for field, name, content in request.uploads:
            if field not in expected:
                continue
            known = self._files.named(name)
            if known is None or known.content != content:
                encoded = base64.b64encode(content).decode()
                result = await self._served.call(put_file.__name__, {"name": name, "base64": encoded})
                if result.code is not None:
                    problems[field] = result.text
                    continue
            texts[field] = name
        data = FormData.having(texts, is_submitted=request.data.is_submitted)
        return request._replace(data=data, uploads=()), problems

    # Screens.

    def _scene_of(self, application: str) -> Scene | None:
        return None if self._scenes is None else self._scenes.scene(application)

    def _scene_page(self, application: Application, scene: Scene) -> Response:
        terms = [
            join(element("dt", None, name), element("dd", None, value or "—")) for name, value in scene.shows.items()
        ]
        shown = element("dl", None, terms) if terms else None
        forms = []
        for name in scene.offers:
            tool = self.catalog.tools[name]
            request = _Request(tool, self._forms[name], FormData.of([]))
            about = element("h2", None, tool.title) if self._forms[name] else None
            forms.append(join(about, self._form(request, {}, f"{name}-")))
        text = [element("p", None, line) for line in scene.text.splitlines()]
        return self._page(scene.title, text, shown, forms)

    # Pages of tools.

    async def _tool_page(self, request: _Request, *, is_sent: bool) -> Response:
        if request.uploads:
            request, refused = await self._take_uploads(request)
            if refused:
                return self._form_page(request, refused, status=422)
        tool, fields, data, _ = request
        if added := data.texts.get(ADD):
            texts = {**data.texts, COUNT + added: str(data.count(added) + 1)}
            return self._form_page(request._replace(data=FormData.having(texts, is_submitted=True)), {})
        runs = data.is_submitted or (tool.is_view and not tool.properties)
        if not runs or (tool.is_view is is_sent):
            return self._form_page(request, {})
        arguments, problems = read_arguments(fields, data)
        if problems:
            return self._form_page(request, problems, status=422)
        if is_sent and self.theme.confirmation == "page" and CONFIRMED not in data.texts:
            return self._confirmation_page(request)
        result = await self._served.call(tool.name, arguments)
        if result.code is not None:
            return self._form_page(request, {}, result, status=STATUSES[result.code])
        if not is_sent:
            shown = join(self._view.render(tool, result.text), self._turn_pages(tool, arguments, result.text))
            return self._form_page(request, {}, result, shown)
        if self._scene_of(tool.application) is not None:
            return Response(303, b"", {**HEADERS, "Location": self._layout.application_address(tool.application)})
        self._keep(CallResult(tool.name, result.text))
        return Response(303, b"", {**HEADERS, "Location": self._layout.address(f"{OWN}done/{self.count}")})

    def _keep(self, result: CallResult) -> None:
        self.count += 1
        self.results[self.count] = result
        self.results.pop(self.count - MOST_RESULTS, None)

    def _form_page(
        self,
        request: _Request,
        problems: Mapping[str, str],
        result: ToolResult | None = None,
        shown: Html | None = None,
        status: int = 200,
    ) -> Response:
        tool = request.tool
        messages = [problems[path] for path in problems] or (
            [result.text] if result is not None and result.code else []
        )
        alert = None
        if messages:
            items = [element("p", {"class": self.theme.name("text")}, message) for message in messages]
            alert = element("div", {"role": "alert", "class": self.theme.name("note")}, items)
        about = element("p", None, tool.description)
        heading = element("h2", None, "Result") if shown is not None else None
        form = self._form(request, problems)
        parts = (about, alert, form, heading, shown)
        return self._page(tool.title, *parts, application=tool.application, status=status)

    def _form(self, request: _Request, problems: Mapping[str, str], scope: str = "") -> Html | None:
        """Returns the form of a tool; `scope` is empty for a form that is alone on its page."""
        tool, fields, data, _ = request
        if tool.is_view and not fields:
            return None
        controls = Controls(self.theme, data, problems, scope).render(fields)
        attributes: dict[str, Attribute] = {
            "method": "get" if tool.is_view else "post",
            "action": self._layout.tool_address(tool),
            "enctype": MULTIPART if any(file_paths(fields, data)) else None,
            "novalidate": True,
            "aria-label": tool.title,
        }
        mark = element("input", {"type": "hidden", "name": SUBMITTED, "value": "1"})
        return element("form", attributes, mark, controls, self._buttons(tool, scope))

    def _buttons(self, tool: PageTool, scope: str) -> Html:
        row, theme = {"class": self.theme.name("row")}, self.theme
        label = tool.title if scope else theme.search if tool.is_view else theme.submit.format(title=tool.title)
        submit = element("button", {"type": "submit"}, label)
        if tool.is_view or theme.confirmation != "dialog":
            return element("div", row, submit)
        confirm, asked = f"confirm-{tool.name}", f"question-{tool.name}"  # a page may hold several forms
        opener = {"type": "button", "command": "show-modal", "commandfor": confirm}
        closer = {"type": "button", "command": "close", "commandfor": confirm, "class": theme.name("quiet")}
        question = element("p", {"id": asked}, f"{tool.title}: are you sure?")
        choices = element("div", row, element("button", {"type": "submit"}, "Yes"), element("button", closer, "Back"))
        dialog = element("dialog", {"id": confirm, "aria-labelledby": asked}, question, choices)
        return join(element("div", row, element("button", opener, label)), dialog)

    def _confirmation_page(self, request: _Request) -> Response:
        tool, _, data, _ = request
        hidden = [
            element("input", {"type": "hidden", "name": name, "value": text}) for name, text in data.texts.items()
        ]
        hidden.append(element("input", {"type": "hidden", "name": CONFIRMED, "value": "1"}))
        shown = [(humanize(name[2:]), text) for name, text in data.texts.items() if name.startswith("f-") and text]
        terms = [join(element("dt", None, name), element("dd", None, text)) for name, text in shown]
        buttons = element("div", {"class": self.theme.name("row")}, element("button", {"type": "submit"}, "Confirm"))
        attributes = {"method": "post", "action": self._layout.tool_address(tool), "aria-label": tool.title}
        form = element("form", attributes, hidden, element("dl", None, terms), buttons)
        return self._page(f"{tool.title}: please confirm", form, application=tool.application)

    def _turn_pages(self, tool: PageTool, arguments: Mapping[str, Any], text: str) -> Html | None:
        """Returns links to the rows before and after, where a tool has `limit` and `offset`."""
        if not {"limit", "offset"} <= tool.properties.keys():
            return None
        try:
            rows = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return None
        limit = arguments.get("limit", tool.properties["limit"].get("default"))
        offset = arguments.get("offset", tool.properties["offset"].get("default", 0))
        if not isinstance(rows, list) or not isinstance(limit, int) or not isinstance(offset, int):
            return None
        links = []
        if offset > 0:
            before = {**arguments, "offset": max(offset - limit, 0)}
            links.append(element("a", {"href": self.tool_link(tool, before), "rel": "prev"}, "Previous page"))
        if len(rows) >= limit:
            after = {**arguments, "offset": offset + limit}
            links.append(element("a", {"href": self.tool_link(tool, after), "rel": "next"}, "Next page"))
        return element("nav", {"aria-label": "Pages", "class": self.theme.name("row")}, links) if links else None

    def _page(self, title: str, *content: Content, application: str = "", status: int = 200) -> Response:
        body = self._layout.render(title, *content, application=application)
        return Response(status, body, {**HEADERS, "Content-Type": "text/html; charset=utf-8"})

    def _problem(self, status: int, title: str, text: str, allow: str = "") -> Response:
        back = element("p", None, element("a", {"href": self._layout.address("/")}, "Start page"))
        response = self._page(title, element("p", {"role": "alert"}, text), back, status=status)
        return response if not allow else Response(status, response.body, {**response.headers, "Allow": allow})


def _read_pairs(text: str) -> list[tuple[str, str]]:
    """Returns the controls of a form. Raises `ValueError` if they are too many."""
    return parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS)


def _wrong_origin(head: RequestHead) -> str:
    """Returns why a form may not be sent from where it was; empty if it may."""
    sender, origin = head.headers.get("sec-fetch-site", "same-origin"), head.headers.get("origin")
    is_own = origin is None or origin.partition("://")[2] == head.headers.get("host")
    return "" if is_own and sender in ("same-origin", "none") else "This form belongs to another site."
