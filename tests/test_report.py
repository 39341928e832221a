"""The report: its files, its numbers, and its page in a real browser."""

import csv
import html
import io
import json
import math
import re
import shlex
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from browser import Browser, find_chromium, start_browser
from hypercrl.analysis import palette
from hypercrl.analysis.comparison import Comparison, compare
from hypercrl.analysis.drawing import panel_grid
from hypercrl.analysis.highlights import find_highlights
from hypercrl.analysis.hover import points_of
from hypercrl.analysis.plots.embeddings import project
from hypercrl.analysis.plots.learning_curves import plot_learning_curves
from hypercrl.analysis.plots.ratios import plot_ratios
from hypercrl.analysis.ratios import NORMALISED, RETENTION
from hypercrl.analysis.report import write_report
from hypercrl.analysis.rollouts import VideoShelf
from hypercrl.analysis.tables import build_tables
from hypercrl.analysis.tables.ranking import ranking_table
from hypercrl.analysis.tables.ratios import ratio_table
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import read_run
from synthetic_runs import PROFILES, Recipe, write_matrix, write_run, write_runs

NAN = math.nan
TABLES = ("ranking", "normalised", "retention", "retention-plain", "forward-transfer")
TABLES += ("forward-transfer-plain", "metrics", "returns", "success", "improvement")
TABLES += ("model-error", "cost", "matrix", "runs", "folders", "all-settings")
FIGURES = ("normalised", "profile", "learning-curves", "retention", "forward-transfer", "returns")
FIGURES += ("model-error", "cost", "embeddings")
SCREENS = [(1280, 900), (390, 844)]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """A page on two suites: a full comparison with one run unfinished, and a lone run."""
    root = tmp_path_factory.mktemp("runs")
    methods = ["hypercrl", "multitask", "finetune", "single"]
    write_runs(root, methods, [0, 1], num_tasks=3, successes=True, videos=True)
    write_run(root, Recipe("hypercrl", 2, num_tasks=3, stop_after=1, successes=True))
    write_run(root, Recipe("somebodys_own", suite="door", num_tasks=2, eval_every=0))
    return write_report([root], tmp_path_factory.mktemp("report") / "page")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory) -> Path:
    """A page of names that no table has room for: 60 letters a method, 40 a task."""
    root = tmp_path_factory.mktemp("runs")
    words = "with a penalty on drift and a learning rate of its own, v2".ljust(60, "!")
    unbroken = "antidisestablishmentarianism" * 3
    tasks = [f"{k}, slide a block on rough wooden ground." for k in range(4)] + [unbroken[:40]]
    for method, name in {"si": words, "hypercrl": unbroken[:60], "single": "single"}.items():
        for run in write_runs(root, [method], [0, 1], successes=True, videos=True):
            _rename(run, method=name, tasks=tasks)
    return write_report([root], tmp_path_factory.mktemp("report") / "page")


@pytest.fixture(scope="module")
def browser():
    with start_browser() as chromium:
        yield chromium


def _rename(run: Path, *, method: str, tasks: list[str]) -> None:
    """Give a run's method and tasks names of somebody else's choice."""
    config = json.loads((run / "config.json").read_text())
    config |= {"method": method, "tasks": tasks}
    (run / "config.json").write_text(json.dumps(config))


def _compare(*paths: Path) -> Comparison:
    (comparison,) = compare([read_run(path) for path in paths])
    return comparison


def test_every_table_and_figure_is_written_in_every_form(report):
    for table in TABLES:
        for ending in ("md", "tex", "csv"):
            assert (report.parent / "tables" / f"pusher-laptop-{table}.{ending}").stat().st_size
    for figure in FIGURES:
        stem = report.parent / "figures" / f"pusher-laptop-{figure}"
        assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert ElementTree.parse(stem.with_suffix(".svg")).getroot().tag.endswith("svg")


def test_tables_are_regular(report):
    for file in (report.parent / "tables").glob("*.md"):
        rows = [line for line in file.read_text().splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, file
    for file in (report.parent / "tables").glob("*.tex"):
        text = file.read_text()
        assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
        rows = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1, file
        assert text.isascii(), file
    for file in (report.parent / "tables").glob("*.csv"):
        assert len({len(row) for row in csv.reader(io.StringIO(file.read_text()))}) == 1, file


def test_the_page_refers_to_nothing_outside_itself(report):
    page = report.read_text()
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(addresses) > 40
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert "url(http" not in page
    assert "@import" not in page


def test_ids_are_unique_and_every_reference_resolves(report):
    page = report.read_text()
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))
    wanted = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)
    assert set(wanted) <= set(names)


def test_the_same_runs_give_the_same_files(tmp_path):
    run = write_run(tmp_path / "runs", Recipe("hypercrl", num_tasks=2))
    first = write_report([run], tmp_path / "a").parent
    second = write_report([run], tmp_path / "b").parent
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert len(files) > 20
    assert all((first / f).read_bytes() == (second / f).read_bytes() for f in files)


def test_csv_holds_the_numbers_behind_the_cells(tmp_path):
    returns = np.array([[200.0, 100.0], [NAN, 300.0]])
    paths = [write_matrix(tmp_path, "si", returns * k, seed=int(k)) for k in (1, 2)]
    paths[1:] = [write_matrix(tmp_path, "si", [[200.0, 160.0], [NAN, 300.0]], seed=5)]
    table = ratio_table(_compare(*paths), RETENTION)
    assert table is not None
    (row,) = csv.DictReader(io.StringIO(table.to_csv()))
    assert float(row["Task 1 mean"]) == pytest.approx(0.65)
    assert float(row["Task 1 std"]) == pytest.approx(np.std([0.5, 0.8], ddof=1))
    assert "seeds 1, 5" in table.sources


def test_the_papers_number_stands_beside_the_plain_ratio_where_it_has_the_cell(tmp_path):
    returns = np.triu(np.full((5, 5), 300.0))
    random = [100.0] * 5
    paths = [write_matrix(tmp_path, m, returns, random=random) for m in ("hypercrl", "single")]
    tables = {table.name: table for table in build_tables(_compare(*paths))}
    notes = [cell.note for cell in tables["retention-plain"].rows[0][1]]
    assert notes == [f"paper {n}" for n in ("99 ± 10", "107 ± 9", "98 ± 13", "103 ± 15", "102 ± 6")]
    assert tables["forward-transfer-plain"].rows[0][1][0].note == "paper 127 ± 22"
    assert tables["retention"].columns[-1] == "Plain ratio"
    assert [cell.note for cell in tables["retention"].rows[0][1]] == [""] * 7 + ["paper 102 ± 6"]
    shorter = _compare(write_matrix(tmp_path / "short", "hypercrl", returns[:3, :3]))
    for table in build_tables(shorter):
        assert not any(cell.note.startswith("paper") for _, cells in table.rows for cell in cells)


def test_an_undefined_ratio_shows_its_returns_instead(tmp_path):
    learnt = write_matrix(tmp_path, "si", [[300.0, 240.0], [NAN, 300.0]], seed=0)
    idle = write_matrix(tmp_path, "si", [[5.0, 240.0], [NAN, 300.0]], seed=1)
    lost = write_matrix(tmp_path, "ewc", [[-20.0, 7.0], [NAN, 300.0]])
    table = ratio_table(_compare(learnt, idle, lost), RETENTION)
    assert table is not None
    rows = dict(table.rows)
    assert rows["SI"][1].text == "80"
    assert rows["SI"][1].note == "1 not learnt: 240 / 5.0"
    assert rows["EWC"][1].text == "–"
    assert rows["EWC"][1].note == "7.0 / −20.0"


def test_the_best_method_is_marked_and_the_reference_does_not_compete(tmp_path):
    worse = write_matrix(tmp_path, "ewc", [[300.0, 30.0], [NAN, 300.0]], random=[0.0, 0.0])
    better = write_matrix(tmp_path, "si", [[300.0, 240.0], [NAN, 300.0]])
    single = write_matrix(tmp_path, "single", [[300.0, 330.0], [NAN, 300.0]])
    rows = ranking_table(_compare(worse, better, single)).rows
    expected = {"SI": (True, True), "EWC": (False, False), "Single-task": (False, False)}
    assert {name: (cells[0].best, cells[-1].best) for name, cells in rows} == expected


def test_what_has_not_begun_is_not_taken_for_an_old_version(tmp_path):
    under_way = write_matrix(tmp_path, "si", [[300.0, NAN], [NAN, NAN]], random=[0.0])
    old = write_matrix(tmp_path, "ewc", [[300.0, 1.0], [NAN, 300.0]], random=[0.0])
    assert "0.1.0" not in ranking_table(_compare(under_way)).reading
    assert "0.1.0" in ranking_table(_compare(old)).reading


def test_highlights_name_the_best_without_old_data_and_the_best_with(tmp_path):
    methods = ["si", "finetune", "multitask", "single"]
    comparison = _compare(*write_runs(tmp_path, methods, [0, 1], num_tasks=3))
    best, kept = find_highlights(comparison)[:2]
    assert best.label == kept.label == "SI"
    assert best.interval.startswith("± ")
    assert best.aside.startswith("3 of 3 tasks learnt. With old data: Multi-task")


def test_a_tolerance_interval_takes_eight_runs(tmp_path):
    paths = write_runs(tmp_path, ["si", "single"], range(8), num_tasks=2, eval_every=0)
    assert "Half of all runs" in ranking_table(_compare(*paths)).columns
    fewer = [path for path in paths if not path.name.endswith("-7")]
    assert "Half of all runs" not in ranking_table(_compare(*fewer)).columns


def test_figures_show_every_single_run(tmp_path):
    comparison = _compare(*write_runs(tmp_path, ["si", "single"], range(3), num_tasks=2))
    drawing = plot_ratios(comparison, palette.assign_colours([comparison]), NORMALISED)
    assert drawing is not None
    expected = 100 * comparison.entries[0].stack(lambda s: s.normalised_performance)
    dots = [line for line in drawing.panels[0].lines if line.get_marker() == "o"]
    assert [np.asarray(line.get_xdata()) for line in dots] == [pytest.approx(expected)]


def test_bars_of_variants_are_told_apart(tmp_path):
    learnt = [[200.0, 100.0], [NAN, 300.0]]
    paths = [
        write_matrix(
            tmp_path,
            "hypercrl",
            learnt,
            random=[0.0, 0.0],
            name=f"strength-{value}",
            learner={"strength": value},
        )
        for value in (3, 10, 30)
    ]
    comparison = _compare(*paths)
    drawing = plot_ratios(comparison, palette.assign_colours([comparison]), RETENTION)
    assert drawing is not None
    names = [label.get_text() for label in drawing.panels[0].get_yticklabels()]
    assert len(set(names)) == 3 and max(map(len, names)) <= 15


def test_a_legend_of_long_names_stays_within_its_figure():
    legend = [(f"HyperCRL: strength-{value}", value % 8) for value in range(12)]
    figure, _ = panel_grid(3, legend)
    figure.canvas.draw()
    frame, (box,) = figure.bbox, [found.get_window_extent() for found in figure.legends]
    assert frame.x0 <= box.x0 and box.x1 <= frame.x1 and box.y1 <= frame.y1
    panel = max(axes.get_tightbbox().y1 for axes in figure.axes)
    assert box.y0 >= panel


def test_colours_are_stable_and_distinct(tmp_path):
    few = compare([read_run(p) for p in write_runs(tmp_path / "a", ["si"], [0], num_tasks=1)])
    methods = [*PROFILES, "one_more", "and_another"]
    many = compare([read_run(p) for p in write_runs(tmp_path / "b", methods, [0], num_tasks=1)])
    colours = palette.assign_colours(many)
    assert palette.assign_colours(few)["SI"] == colours["SI"]
    assert len(set(colours.values())) == len(methods)
    codes = [colour.light for colour in palette.css_variables().values()]
    assert len(set(codes)) == len(codes)


def test_entries_of_one_chapter_have_distinct_colours_however_many_the_others_have(tmp_path):
    def learner(k):
        return {"learner": {"learning_rate": 0.1 * k}}

    paths = [write_run(tmp_path / str(k), _short("hypercrl", **learner(k))) for k in range(9)]
    paths += [write_run(tmp_path, _short(m, suite="slide")) for m in ("hypercrl", "si", "x", "y")]
    found = compare([read_run(path) for path in paths])
    colours = palette.assign_colours(found)
    for comparison in found:
        used = [colours[entry.label] for entry in comparison.entries]
        assert len(set(used)) == len(used)
    assert colours["HyperCRL"] == 0


def _short(method: str, **options) -> Recipe:
    return Recipe(method, num_tasks=1, eval_every=0, **options)


def test_more_methods_than_colours_still_get_one(tmp_path):
    methods = [f"method_{k}" for k in range(14)]
    found = compare([read_run(p) for p in write_runs(tmp_path, methods, [0], num_tasks=1)])
    colours = palette.assign_colours(found)
    assert len(colours) == 14
    assert set(colours.values()) <= set(range(len(palette.SERIES)))


def test_names_from_outside_are_escaped(tmp_path):
    run = write_run(tmp_path / "runs", Recipe("x", num_tasks=2))
    evil = "<script>alert('$title')</script> & 50 % _"
    _rename(run, method=evil, tasks=[evil, evil])
    page = write_report([run], tmp_path / "out")
    assert "<script>alert" not in page.read_text()
    assert html.escape("<script>alert") in page.read_text()
    latex = (page.parent / "tables" / "pusher-laptop-returns.tex").read_text()
    assert r"('\$title')</script> \& 50 \% \_" in latex


def test_videos_beyond_the_limit_are_put_beside_the_page(tmp_path):
    file = tmp_path / "clip.mp4"
    file.write_bytes(b"x" * 100)
    shelf = VideoShelf(tmp_path / "videos", room=150)
    assert shelf.place(file, "first").startswith("data:video/mp4;base64,")
    assert shelf.place(file, "second") == "videos/second.mp4"
    assert (tmp_path / "videos" / "second.mp4").read_bytes() == file.read_bytes()


def test_embeddings_on_a_line_project_onto_one_component():
    direction = np.array([3.0, 0.0, 4.0])
    points, shares = project(np.outer([-2.0, 0.0, 2.0], direction))
    assert np.abs(points[:, 0]) == pytest.approx([10.0, 0.0, 10.0], abs=1e-9)
    assert points[:, 1] == pytest.approx(np.zeros(3), abs=1e-9)
    assert shares == pytest.approx([1.0, 0.0])
    assert project(np.ones((2, 1)))[1] == pytest.approx([0.0, 0.0])


def test_learning_curves_fall_back_on_the_episodes_learnt_from(tmp_path):
    tested = write_run(tmp_path, Recipe("si", 0, num_tasks=2, eval_every=400))
    untested = write_run(tmp_path / "b", Recipe("si", 0, num_tasks=2, eval_every=0))
    lengths = []
    for path in (tested, untested):
        comparison = _compare(path)
        drawing = plot_learning_curves(comparison, palette.assign_colours([comparison]))
        assert drawing is not None
        # The last line of a panel is the method's; those before it mark task switches.
        lengths.append([len(np.asarray(axes.lines[-1].get_xdata())) for axes in drawing.panels])
    # Every 400 of 4,000 steps, on a finished task again during the next, and before a task.
    assert lengths[0] == [20, 11, 20]
    # Every 100 steps while a task is learnt, then only at the ends of tasks.
    assert lengths[1] == [41, 41, 2]


def test_a_run_that_has_only_begun_still_gives_a_page(tmp_path):
    run = write_run(tmp_path / "runs", Recipe("hypercrl", num_tasks=3, stop_after=0))
    page = write_report([run], tmp_path / "out").read_text()
    assert "0 of 1" in page
    assert "Unfinished runs (1)" in page


def test_progress_is_told_and_ends_complete(tmp_path):
    run = write_run(tmp_path / "runs", Recipe("si", num_tasks=2))
    told: dict[str, tuple[int, int]] = {}
    write_report([run], tmp_path / "out", progress=lambda what, *n: told.update({what: n}))
    assert len(told) == 3
    assert all(done == total > 0 for done, total in told.values())


def test_what_cannot_be_written_or_read_is_said_in_a_sentence(tmp_path):
    run = write_run(tmp_path / "runs", Recipe("si", num_tasks=1))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_report([run], tmp_path / "file")
    with pytest.raises(UserError, match="at least one run"):
        write_report([], tmp_path / "out")


def test_a_missing_browser_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(RuntimeError, match="apt-get install chromium"):
        find_chromium()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_page_shows_everything_on_every_screen(report, browser: Browser, width, height, scheme):
    page = browser.open(report, width=width, height=height, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for kind, names in (("figure", FIGURES), ("table", TABLES)):
        for name in names:
            box = page.locator(f'[data-{kind}="pusher-laptop-{name}"]').bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) > 60, name
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('.panels text')]"
        ".map(t => t.getBoundingClientRect()).map(b => Math.min(b.height, b.width ? 99 : 0)))"
    )
    assert smallest >= 9  # CSS pixels: text in figures stays legible on a phone
    # The open table of all returns must not widen the page either.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.querySelectorAll('.panels')].every(p => p.ariaLabel)")
    assert browser.errors == []
    assert browser.requests
    assert all(r.startswith(("file:", "data:")) for r in browser.requests)


def test_names_are_shown_letter_by_letter(tmp_path, browser: Browser):
    run = write_run(tmp_path / "runs", Recipe("x", num_tasks=2, videos=True))
    method, task = """<b>x</b> "quoted" &amp; 'own' {{ 7 * 7 }}""", '"><i>y</i> {% raw %}'
    _rename(run, method=method, tasks=[task, task])
    page = browser.open(write_report([run], tmp_path / "out"))
    returns = page.locator('[data-table="pusher-laptop-returns"]')
    assert returns.locator("tbody th").first.inner_text() == method
    assert returns.locator("thead th").nth(1).inner_text() == f"Task 1\n{task}"
    assert page.locator(".methods button").inner_text() == method
    assert page.locator("[data-wall]").first.inner_text() == f"Task 1: {task}"
    alt = f"{method} on task 1 ({task}) after training task 1"
    assert page.locator("video").first.get_attribute("aria-label") == alt
    assert page.locator("i").count() == 0
    assert browser.errors == []


TABLE_BOXES = """boxes => boxes.map(box => {
  box.scrollLeft = 1e4;
  const { left, right } = box.getBoundingClientRect();
  const rows = [...box.querySelectorAll("tbody th")].map(row => row.getBoundingClientRect());
  return {
    left, right,
    scrolled: box.scrollLeft,
    stuck: rows.every(row => Math.abs(row.left - left) < 1),
    share: rows[0].width / box.clientWidth,
    cut: [...box.querySelectorAll(".name")].filter(n => n.scrollWidth > n.clientWidth).length,
  };
})"""


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_long_names_wrap_and_wide_tables_scroll_in_their_own_box(
    crowded, browser: Browser, width, height
):
    page = browser.open(crowded, width=width, height=height)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.locator(".scroll").evaluate_all(TABLE_BOXES)
    assert len(boxes) == len(TABLES)
    for box in boxes:
        assert box["left"] >= 0
        assert box["right"] <= width
        assert box["cut"] == 0  # letters beyond their box
        assert box["stuck"]
        assert box["share"] < 0.55  # of the width, for names; the numbers have the rest
    # Five tasks fit a desktop; on a phone the numbers pass beside the names.
    assert any(box["scrolled"] for box in boxes) == (width < 600)


LUMINANCE = """(colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(Number)
    .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(report, browser: Browser, scheme):
    page = browser.open(report, scheme=scheme)

    def luminance(selector: str, style: str) -> float:
        element = f"document.querySelector('{selector}')"
        return page.evaluate(f"{LUMINANCE}(getComputedStyle({element}).{style})")

    assert (luminance("body", "backgroundColor") > 0.5) == (scheme == "light")
    card = luminance(".block", "backgroundColor")
    texts = {".reading": "color", "td": "color", "td small": "color", ".panels text": "fill"}
    for selector, style in {**texts, ".sources a": "color"}.items():
        text = luminance(selector, style)
        brighter, darker = max(text, card), min(text, card)
        assert (brighter + 0.05) / (darker + 0.05) >= 4.5, selector  # WCAG AA


def test_theme_button_overrides_the_system(report, browser: Browser):
    page = browser.open(report)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.click("#theme")
    assert page.evaluate(background) != light
    page.reload()
    assert page.evaluate(background) != light
    page.click("#theme")
    assert page.evaluate(background) == light


def test_method_buttons_hide_and_show_a_method(report, browser: Browser):
    page = browser.open(report)
    hidden, button = page.locator(".panels .off"), page.locator(".methods button").first
    assert hidden.count() == 0
    button.click()
    assert hidden.count() > 5
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert hidden.count() == 0


# Two frames: a scroll is told to the page at the start of the next one.
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def _hover(page, figure: str, label: str) -> str:
    """What the page says at a mark of a method's, the last one in the figure's first panel."""
    panel = page.locator(f"[data-figure='pusher-laptop-{figure}'] svg").first
    panel.scroll_into_view_if_needed()
    page.evaluate(FRAMES)  # what is said of a mark goes when the page scrolls: let it end first
    button = page.locator("#pusher-laptop .methods button", has_text=label).first
    series = int(button.get_attribute("data-series"))
    x, y, *_ = [p for p in json.loads(panel.get_attribute("data-points")) if p[2] == series][-1]
    place = page.evaluate(
        "([svg, x, y]) => { const p = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());"
        " return [p.x, p.y]; }",
        [panel.element_handle(), x, y],
    )
    page.mouse.move(*place)
    return page.locator(".tip").inner_text() if page.locator(".tip").is_visible() else ""


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_a_mark_says_its_value_where_the_pointer_is(report, browser: Browser, width, height):
    page = browser.open(report, width=width, height=height, still=True)
    assert re.search(
        r"Fine-tuning .*at 12 000 control steps", _hover(page, "learning-curves", "Fin")
    )
    assert re.search(r"HyperCRL [\d.]+ per cent", _hover(page, "retention", "HyperCRL"))
    box = page.locator(".tip").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
    button = page.locator("#pusher-laptop .methods button", has_text="HyperCRL").first
    button.click()
    assert "HyperCRL " not in _hover(page, "retention", "HyperCRL")  # what is hidden says nothing
    assert browser.errors == []


def test_hover_values_are_those_that_were_drawn(tmp_path):
    paths = [write_matrix(tmp_path, "si", [[200.0, 100.0], [NAN, 300.0]], random=[0.0, 0.0])]
    drawing = plot_ratios(_compare(*paths), {"SI": 3}, RETENTION)
    assert drawing is not None
    (bar, *_) = json.loads(points_of(drawing.panels[0]))
    assert bar[2:] == [3, "50.0 per cent"]
    axes = drawing.panels[0]
    at = axes.transData.inverted().transform((bar[0], 0) * np.array(drawing.figure.dpi / 72))
    assert at[0] == pytest.approx(50, abs=0.5)


def _column(page, name: str, column: int) -> list[str]:
    rows = page.locator(f"[data-table='pusher-laptop-{name}'] tbody tr")
    return rows.evaluate_all(f"rows => rows.map(r => r.cells[{column}].textContent.trim())")


def test_a_heading_sorts_its_column_and_gives_the_order_back(report, browser: Browser):
    page = browser.open(report)
    written = _column(page, "cost", 0)
    heading = page.locator("[data-table='pusher-laptop-cost'] thead th").nth(3)
    for order, reverse in (("descending", True), ("ascending", False)):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == order
        rows = page.locator("[data-table='pusher-laptop-cost'] tbody tr")
        values = rows.evaluate_all("rows => rows.map(r => Number(r.cells[3].dataset.value))")
        assert len(set(values)) > 1 and values == sorted(values, reverse=reverse)
    heading.locator("button").click()
    assert _column(page, "cost", 0) == written
    page.locator("[data-table='pusher-laptop-cost'] thead th").first.locator("button").click()
    assert _column(page, "cost", 0) == sorted(written, reverse=True)
    assert browser.errors == []


def test_every_figure_has_a_link_of_its_own(report, browser: Browser):
    page = browser.open(report)
    figures = page.locator("[data-figure]").count()
    linked = page.locator(".block:has([data-figure]) h3 .permalink").evaluate_all(
        "links => links.map(link => link.hash.slice(1) === link.closest('.block').id)"
    )
    assert len(linked) == figures and all(linked)


def test_the_page_tells_folder_schedule_settings_and_command_of_each_run(tmp_path):
    run = write_run(tmp_path / "my runs", Recipe("hypercrl", num_tasks=2))
    tables = {table.name: table for table in build_tables(_compare(run))}
    ((name, (folder, schedule, command)),) = tables["folders"].rows
    assert name == "HyperCRL, seed 0"
    assert folder.text == str(run)
    steps = json.loads((run / "config.json").read_text())["schedule"]["steps_per_task"]
    assert f"2 tasks; {steps:,} control steps a task" in schedule.text
    assert shlex.split(command.text)[3] == str(run)
    settings = {name: cell.text for name, (cell,) in tables["all-settings"].rows}
    assert settings["schedule.steps_per_task"] == str(steps)


def test_keyboard_reaches_the_controls(report, browser: Browser):
    page = browser.open(report)
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.className || 'link'"))
    assert reached[0] == "skip"
    assert "theme" in reached
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize(("width", "height"), SCREENS)
def test_videos_play_and_tabs_change_the_task(report, browser: Browser, width, height):
    page = browser.open(report, width=width, height=height)
    page.locator(".rollouts").scroll_into_view_if_needed()
    shown = "document.querySelector('.wall:not([hidden]) video')"
    page.wait_for_function(f"{shown}.videoWidth === 320 && {shown}.currentTime > 0.3")
    assert page.locator(".wall:not([hidden]) video").count() == 8
    page.locator("[data-wall]").nth(1).click()
    assert "on task 2" in page.evaluate(f"{shown}.ariaLabel")
    page.wait_for_function(f"{shown}.currentTime > 0.3 && !{shown}.paused")
    page.click(".play")
    assert page.evaluate(f"{shown}.paused")
    assert browser.errors == []


@pytest.mark.slow
def test_56_runs_take_under_half_a_minute_of_one_core(tmp_path):
    suites = ("pusher", "door")
    write_runs(tmp_path / "runs", list(PROFILES), range(4), suites, eval_every=200, videos=True)
    start = time.process_time()
    write_report([tmp_path / "runs"], tmp_path / "out")
    assert time.process_time() - start < 30
