"""Brokers on the test's own loop that serve the console, and visitors that follow its forms without a script."""

import contextlib
import html
import re
from collections.abc import AsyncIterator
from urllib.parse import urlencode

from mledger.broker.admin_rest.http_server import AdminHttpServer
from mledger.broker.process.http_answers import MODULES, HttpAnswers
from mledger.metastore.runtime.network.listening_port import bind_listener
from tests.support.admin_rest import WebServed, ask
from tests.support.brokers.served_broker import served
from tests.support.http import HttpAnswer

_FORM = re.compile(r'<form method="post" action="([^"]*)"[^>]*>(.*?)</form>', re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


class Visitor:
    """Somebody who looks at a console; `fields` are headers of every request."""

    def __init__(self, port: int, **fields: str) -> None:
        self.port, self.fields = port, fields

    async def get(self, path: str, **query: str) -> HttpAnswer:
        """A page; `path` is what follows /console."""
        end = f"?{urlencode(query)}" if query else ""
        return await ask(self.port, "GET", f"/console{path}{end}", **self.fields)

    async def text(self, path: str, **query: str) -> str:
        """What a page that must be there says, without its tags."""
        answer = await self.get(path, **query)
        assert answer.status == 200, answer
        return text_of(answer)

    async def post(self, path: str, form: dict[str, str], **fields: str) -> HttpAnswer:
        """Send a form; `path` is the whole path."""
        sent = {"Content-Type": "application/x-www-form-urlencoded", **self.fields, **fields}
        return await ask(self.port, "POST", path, urlencode(form).encode(), **sent)

    async def confirm(self, plan: HttpAnswer, **fields: str) -> HttpAnswer:
        """Confirm a plan as its page has it."""
        path, form = confirmation(plan)
        return await self.post(path, form, **fields)


def confirmation(plan: HttpAnswer) -> tuple[str, dict[str, str]]:
    """The path and the fields of a plan's confirmation."""
    forms = [(path, inside) for path, inside in _FORM.findall(plan.body) if 'name="plan"' in inside]
    assert len(forms) == 1, plan
    path, inside = forms[0]
    return html.unescape(path), {name: html.unescape(value) for name, value in _HIDDEN.findall(inside)}


def text_of(answer: HttpAnswer) -> str:
    """The words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.body)).split())


@contextlib.asynccontextmanager
async def console_served(url: str, *settings: str) -> AsyncIterator[WebServed]:
    """A broker of the cluster at `url` that serves what a broker's process serves over HTTP."""
    listener = bind_listener("127.0.0.1", 0)
    web_port = listener.getsockname()[1]
    async with served(url, *settings, web_port=web_port, policy_cluster="standalone") as broker:
        answers = HttpAnswers(broker.broker, broker.cluster, topics=False)
        server = AdminHttpServer(answers.answer, answers.routes, modules=MODULES)
        server.start_on(listener)
        try:
            yield WebServed(broker, web_port)
        finally:
            await server.close()
            listener.close()
