"""One HTML page for an experiment, with its pictures inside: it needs no network and no other file."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from madbayes.words import shown

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
.table { overflow-x: auto } table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem }
caption { text-align: left; color: #555; padding-bottom: .3rem }
th, td { border-bottom: 1px solid #ccc; padding: .25rem .7rem; text-align: right }
th:first-child, td:first-child { text-align: left }
figure { margin: 1rem 0 } img { max-width: 100%; height: auto } figcaption { color: #555; font-size: .9rem }
@media (prefers-color-scheme: dark) { body { background: #1c1c1c; color: #ddd } img { background: #fff } }
"""


class Section(NamedTuple):
    """A part of the page."""

    title: str
    verdict: Sequence[str]
    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    pictures: Mapping[str, bytes]  # PNG, by what they show


def render(title: str, about: Sequence[str], sections: Sequence[Section]) -> str:
    """The page."""
    verdict = [sentence for section in sections for sentence in section.verdict]
    body = [f"<h1>{escape(title)}</h1>", paragraphs(about), "<h2>In short</h2>", bullets(verdict)]
    body += [render_section(section) for section in sections]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    head += f"<style>{STYLE}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{join(body)}</body></html>\n'


def render_section(section: Section) -> str:
    """A heading, what was found, tables and pictures."""
    tables = [render_table(name, rows) for name, rows in section.tables.items()]
    pictures = [render_picture(words, png) for words, png in section.pictures.items()]
    return join([f"<h2>{escape(section.title)}</h2>", bullets(section.verdict), *tables, *pictures])


def render_table(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same columns."""
    head = "".join(f"<th>{escape(str(column))}</th>" for column in rows[0])
    lines = ["".join(f"<td>{escape(shown(value))}</td>" for value in row.values()) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    caption = f"<caption>{escape(name)}</caption>"
    return f'<div class="table"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def render_picture(words: str, png: bytes) -> str:
    """A picture that is part of the page, and what it shows."""
    data = b64encode(png).decode()
    return (
        f'<figure><img alt="{escape(words)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(words)}</figcaption></figure>"
    )


def paragraphs(sentences: Sequence[str]) -> str:
    """Sentences, a paragraph for each."""
    return join([f"<p>{escape(sentence)}</p>" for sentence in sentences])


def bullets(sentences: Sequence[str]) -> str:
    """Sentences as a list."""
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def join(parts: Sequence[str]) -> str:
    """Each on a line of its own."""
    return "\n".join(parts) + "\n"
