"""SQL on the page: what is saved is the answer that is shown, and names can be completed."""

from __future__ import annotations

import pytest
from tests.page.visitor import Visitor

import livingdb

_SAVED = """
    window.saved = [];
    URL.createObjectURL = (blob) => { window.saved.push(blob); return 'about:blank#'; };
    URL.revokeObjectURL = () => {};
    HTMLAnchorElement.prototype.click = () => {};
"""
_LINES = "return window.saved.at(-1).text().then((text) => text.trim().split('\\r\\n').length)"


@pytest.fixture
def sql(visitor: Visitor) -> Visitor:
    visitor.go("#/sql")
    visitor.see("main .nothing")
    return visitor


def ask(visitor: Visitor, statement: str) -> None:
    visitor.fill("Statement", statement)
    visitor.press("Run")


def test_what_is_saved_is_what_was_asked(sql: Visitor, db: livingdb.Database) -> None:
    db.branch("main").clone("safe")
    sql.until(lambda: "safe" in sql.see("main select"))
    sql.fill("On branch", "safe")
    sql.run(_SAVED)
    ask(sql, "SELECT id FROM orders ORDER BY id")
    sql.see("table.rows", "40")
    before = db.branch("safe").head.id
    sql.fill("Statement", "DELETE FROM orders")
    sql.press("Save as Arrow")
    sql.until(lambda: sql.run("return window.saved.length") == 1)
    assert db.branch("safe").head.id == before


def test_a_file_has_more_than_the_first_rows(sql: Visitor, db: livingdb.Database) -> None:
    lots = db.branch("main").clone("lots")
    rows = [{"id": n, "city": "Hamar", "net": 1} for n in range(1000, 2500)]
    lots.insert("orders", rows)
    sql.see("label.field", "On branch")
    sql.until(lambda: "lots" in sql.see("main select"))
    sql.fill("On branch", "lots")
    sql.run(_SAVED)
    ask(sql, "SELECT id FROM orders")
    sql.see("main", "The first 1,000 rows; there are more")
    sql.press("Save as CSV")
    sql.see("main", "1,540 rows saved")
    assert sql.run(_LINES) == 1541


def test_an_answer_is_gone_with_what_it_answered(sql: Visitor) -> None:
    ask(sql, "SELECT 41 AS n")
    sql.see("table.rows", "41")
    ask(sql, "SELECT nothing FROM nowhere")
    sql.see(".problem", "nowhere")
    assert sql.run("return document.querySelector('table.rows')") is None


def test_names_are_completed_as_sql_takes_them(sql: Visitor, db: livingdb.Database) -> None:
    db.branch("main").create_table("år og måned", {"id": "bigint"}, key="id")
    sql.go("#/alerts")
    sql.go("#/sql")
    sql.fill("Statement", "SELECT * FROM år")
    sql.press("`år og måned`", within="#suggestions")
    sql.press("Run")
    sql.see("main", "0 rows")


def test_who_comes_back_finds_the_statement_that_ran(sql: Visitor, db: livingdb.Database) -> None:
    db.branch("main").clone("there")
    sql.until(lambda: "there" in sql.see("main select"))
    sql.fill("On branch", "there")
    ask(sql, "SELECT 'a & b #1' AS n")
    sql.see("table.rows", "a & b #1")
    typed = """
        const boxes = [...document.querySelectorAll('main select, main textarea')];
        return boxes.map((box) => box.value);
    """
    sql.go("#/alerts")
    sql.browser.driver.back()
    sql.until(lambda: sql.run(typed) == ["there", "SELECT 'a & b #1' AS n"])
    sql.browser.driver.refresh()
    sql.until(lambda: sql.run(typed) == ["there", "SELECT 'a & b #1' AS n"])


def test_a_chart_tells_what_is_below_nothing(sql: Visitor) -> None:
    ask(sql, "SELECT 'a' AS name, 1 AS up, -3 AS down UNION ALL SELECT 'b', 2, 1")
    sql.see("table.rows", "-3")
    sql.press("Chart")
    bars = """
        return [...document.querySelectorAll('.bars rect')].map((bar) =>
            [bar.classList.contains('below'), Number(bar.getAttribute('x'))]);
    """
    assert sql.run(bars) == [[True, 0], [False, 75]]
    sql.fill("Length of the bars", "up")
    sql.until(lambda: sql.run(bars) == [[False, 0], [False, 0]])
    assert sql.axe() == []


def test_a_chart_draws_no_bar_for_what_has_no_end(sql: Visitor) -> None:
    kinds = ("Infinity", "-Infinity", "NaN", "2")
    ask(sql, " UNION ALL ".join(f"SELECT '{one}' AS name, double('{one}') AS n" for one in kinds))
    sql.see("table.rows", "NaN")
    sql.press("Chart")
    sql.see("table.bars", "Infinity")
    widths = """
        const bars = [...document.querySelectorAll('.bars rect')];
        return bars.map((bar) => bar.width.baseVal.value);
    """
    assert sorted(sql.run(widths)) == [0, 0, 0, 100]
    assert sql.browser.complaints() == []


def test_who_waited_long_enough_can_go_on(sql: Visitor) -> None:
    sql.run(
        """
        const ask = window.fetch;
        const hang = (signal) => new Promise((_, fail) => {
            signal.addEventListener('abort', () => fail(new DOMException('', 'AbortError')));
        });
        window.fetch = (path, given) =>
            path === '/v1/sql' && window.isSlow ? hang(given.signal) : ask(path, given);
        window.isSlow = true;
        """
    )
    ask(sql, "SELECT 1 AS n")
    sql.see("main", "It runs on the server")
    sql.press("Stop waiting")
    sql.see(".problem", "You stopped waiting")
    sql.run("window.isSlow = false")
    sql.press("Run")
    sql.see("table.rows", "n")
