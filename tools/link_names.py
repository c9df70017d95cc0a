"""Extension of Sphinx: pages link to the public names that they use, and names back to the pages.

A name in backticks or in a block of code becomes a link to its page in the reference; that page
ends with the guides and the scripts of the gallery where the name is used. Nothing of it stands in
the sources, so nothing of it can be out of date.
"""

from __future__ import annotations

import re
from collections import Counter
from html import escape, unescape

from docutils import nodes
from write_reference import MODULES, path_of, public_names

USERS = ("start/", "guides/", "explanation/", "examples/")
"""Pages whose names are links, and which the pages of names link back to."""

KINDS = {"start/": "Start", "guides/": "Guides", "examples/": "Gallery"}
"""Pages that are listed where a name is described, under these words."""

EVERY_MODULE = (*MODULES, *(inner for found in MODULES.values() for inner in found))
IMPORT = re.compile(r"from (calibrant[\w.]*) import (\([^)]*\)|[^\n]*)")


def names_of_modules():
    """Return the full name of every public object, by the names that pages may use for it."""
    found = {}
    for module in EVERY_MODULE:
        for name in public_names(module):
            full = f"{module}.{name}"
            if full in EVERY_MODULE or name == "__version__":
                continue
            found[full] = full
            found[full.removeprefix("calibrant.")] = full  # metrics.evaluate
            found.setdefault(name, full)  # the first module that has it
    return found


NAMES = names_of_modules()


def imported_names(text):
    """Return what the code of a page takes from the package: the full name by the local one."""
    found = {}
    for module, listed in IMPORT.findall(re.sub(r"^(>>>|\.\.\.) ?", "", text, flags=re.MULTILINE)):
        for one in re.sub(r"[()]|#.*", "", listed).split(","):
            name, _, other = one.strip().partition(" as ")
            full = f"{module}.{name}"
            if full in NAMES or full in EVERY_MODULE:
                found[other or name] = full
    if re.search(r"^(>>> )?import calibrant$", text, flags=re.MULTILINE):
        found["calibrant"] = "calibrant"
    return found


def find_name(text, imported):
    """Return the full name of an object, or of its method, that a span of code names, or None."""
    name = re.sub(r"\(.*\)$", "", text, flags=re.DOTALL)
    if not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        return None
    if name in imported:
        return imported[name]
    head, _, member = name.rpartition(".")
    if name in NAMES:
        # `compare` may be the command: single words are names where the page imports them, or
        # calls them, or says of which module they are.
        is_plain = re.fullmatch(r"[a-z]+", name) and name == text
        return None if is_plain else NAMES[name]
    if name in EVERY_MODULE:
        return name
    if head in imported or head in NAMES:
        return f"{imported.get(head) or NAMES[head]}.{member}"
    return None


def blocks_of(doctree):
    """Return the code of a page, one block after the other."""
    return "\n".join(block.astext() for block in doctree.findall(nodes.literal_block))


def collect(app, doctree):
    """Remember the names that a page uses, when it was read."""
    page = app.env.docname
    if not page.startswith(USERS) or page.endswith("/index"):
        return
    imported = imported_names(blocks_of(doctree))
    spans = [find_name(one.astext(), imported) for one in doctree.findall(nodes.literal)]
    used = {full for full in (*imported.values(), *spans) if full is not None}
    store(app.env)[page] = (imported, used)


def store(env):
    """Return what was collected, by page."""
    if not hasattr(env, "names_of_pages"):
        env.names_of_pages = {}
    return env.names_of_pages


def forget(_app, env, page):
    """Forget a page that is read again."""
    store(env).pop(page, None)


def address_of(app, page, full):
    """Return where a name is described, as seen from a page; None where it is not described."""
    if full in EVERY_MODULE:
        target = f"reference/{path_of(full).stem}" if full in MODULES else None
        return target and app.builder.get_relative_uri(page, target)
    objects = app.env.get_domain("py").objects
    found = objects.get(full) or objects.get(full.rpartition(".")[0])
    if found is None or not found.docname.startswith("reference/"):
        return None
    return f"{app.builder.get_relative_uri(page, found.docname)}#{found.node_id}"


def link(app, doctree, page):
    """Make links of the names on a page."""
    if page not in store(app.env):
        return
    imported, _ = store(app.env)[page]
    for span in list(doctree.findall(nodes.literal)):
        outer = span.parent
        while outer is not None and not isinstance(outer, nodes.reference | nodes.title):
            outer = outer.parent
        full = None if outer is not None else find_name(span.astext(), imported)
        address = full and address_of(app, page, full)
        if address:
            made = nodes.reference("", "", span.deepcopy(), internal=True, refuri=address)
            span.parent.replace(span, made)


def users_of(app, wanted):
    """Return pages that use one of some names, those that use most of them first, by kind."""
    counts = Counter()
    for page, (_, used) in store(app.env).items():
        plain = {full if full in wanted else full.rpartition(".")[0] for full in used}
        counts[page] = len(plain & wanted)
    most = sorted((page for page in counts if counts[page]), key=lambda one: (-counts[one], one))
    kinds = {kind: [page for page in most if page.startswith(kind)] for kind in KINDS}
    return {KINDS[kind]: pages for kind, pages in kinds.items() if pages}


def list_users(app, page):
    """Return the list of pages that use what a page of the reference describes.

    It is written into the finished page: a search should not find a name by the titles of guides.
    """
    stem = page.removeprefix("reference/")
    if stem.startswith("names/"):
        wanted = {stem.removeprefix("names/")}
    else:
        modules = {module for module in MODULES if path_of(module).stem == stem}
        wanted = {full for full in NAMES.values() if full.rpartition(".")[0] in modules}
    lines = []
    for kind, pages in users_of(app, wanted).items():
        links = [
            f'<a href="{escape(app.builder.get_relative_uri(page, one))}">'
            f"{escape(app.env.titles[one].astext())}</a>"
            for one in pages
        ]
        lines.append(f"<li><p>{kind}: {', '.join(links)}</p></li>")
    title = "Where it is used" if "names/" in stem else "Where they are used"
    listed = f'<p class="rubric">{title}</p><ul class="simple">{"".join(lines)}</ul>'
    return listed if lines else ""


def finish(app, page, _template, context, _doctree):
    """Link names in code that was coloured; list pages where names are described."""
    body = context.get("body") or ""
    if page.startswith("reference/"):
        before, end, after = body.rpartition("</section>")
        context["body"] = before + list_users(app, page) + end + after
        return
    imported, _ = store(app.env).get(page, ({}, set()))
    if not imported:
        return
    modules = {name for name, full in imported.items() if full in EVERY_MODULE}

    def anchor(shown, full):
        address = address_of(app, page, full)
        return f'<a class="name" href="{escape(address)}">{shown}</a>' if address else shown

    def name_in(found):
        return anchor(found[0], imported[unescape(found[1])])

    def name_of_module(found):
        full = f"{imported[found[2]]}.{found[4]}"
        return found[1] + (anchor(found[3], full) if full in NAMES else found[3])

    plain = "|".join(re.escape(name) for name in imported if name not in modules)
    single = re.compile(rf'(?<!<span class="o">\.</span>)<span class="n">({plain})</span>')
    words = "|".join(map(re.escape, modules))
    dotted = re.compile(
        rf'(<span class="n">({words})</span><span class="o">\.</span>)'
        r'(<span class="n">(\w+)</span>)'
    )

    def block(found):
        text = found[0]
        text = single.sub(name_in, text) if plain else text
        return dotted.sub(name_of_module, text) if words else text

    context["body"] = re.sub(r"<pre>.*?</pre>", block, body, flags=re.DOTALL)


def setup(app):
    """Connect what is done when pages are read, and when they are written."""
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", forget)
    app.connect("doctree-resolved", link)
    app.connect("html-page-context", finish, priority=800)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
