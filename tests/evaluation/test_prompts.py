"""Prompts: the usual file formats, subsets that look like the whole, the hard list, downloads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.evaluation import prompts as prompt_lists
from clock_attention.evaluation.prompts import Prompt, fetch_prompts, hard_prompts, read_prompts, stratified

SHARED = Path(__file__).resolve().parents[3] / "shared" / "text"
needs_lists = pytest.mark.skipif(not SHARED.is_dir(), reason="the published lists are not beside the repository")


@needs_lists
def test_published_lists_are_complete() -> None:
    arctic = read_prompts(SHARED / "cmu_arctic_1132.psv")
    assert len(arctic) == 1132
    assert arctic[0] == Prompt("arctic_a0001", "Author of the danger trail, Philip Steels, etc.", "cmu_arctic_1132")
    harvard = read_prompts(SHARED / "harvard_720.txt")
    assert len(harvard) == 720
    assert harvard[0].text == "The birch canoe slid on the smooth planks."


def test_formats(tmp_path: Path) -> None:
    lines = {
        "festvox.data": '( arctic_a0001 "He said \\"go\\", (twice)." )\n( arctic_a0002 "Yes." )\n',
        "pipes.psv": 'arctic_a0001|He said "go", (twice).\n\narctic_a0002|Yes.\n',
        "metadata.csv": 'arctic_a0001|He said 2|He said "go", (twice).\narctic_a0002|Yes.|\n',
    }
    for name, content in lines.items():
        (tmp_path / name).write_text(content, encoding="utf-8-sig")
        read = read_prompts(tmp_path / name)
        assert [(prompt.id, prompt.text) for prompt in read] == [
            ("arctic_a0001", 'He said "go", (twice).'),
            ("arctic_a0002", "Yes."),
        ]
    (tmp_path / "plain.txt").write_text("# a comment\n\n  One sentence.  \n(Another.)\nPress the | key twice.\n")
    assert read_prompts(tmp_path / "plain.txt") == [
        Prompt("plain-0003", "One sentence.", "plain"),
        Prompt("plain-0004", "(Another.)", "plain"),
        Prompt("plain-0005", "Press the | key twice.", "plain"),
    ]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=40))
def test_any_sentence_survives_festvox_quoting(sentence: str) -> None:
    text = f"A {sentence}".replace("\\", "").strip()
    quoted = text.replace('"', '\\"')
    (read,) = prompt_lists.parse([f'( a1 "{quoted}" )'], "festvox")
    assert read == Prompt("a1", text, "festvox")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no prompts"),
        ("# only a comment\n", "holds no prompts"),
        ("a1|One.\na1|Two.\n", "'a1' occurs twice"),
        ("a1|...\n", "line 1 of list: expected an id and a sentence"),
        ("|One.\n", "line 1 of list"),
    ],
)
def test_useless_files_are_explained(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "list.txt").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_prompts(tmp_path / "list.txt")
    with pytest.raises(FileNotFoundError, match="one sentence a line"):
        read_prompts(tmp_path / "missing.txt")
    (tmp_path / "latin.txt").write_bytes("Café.\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt is not UTF-8"):
        read_prompts(tmp_path / "latin.txt")


@given(st.data())
def test_subsets_keep_the_shares_of_groups_and_lengths(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    prompts = [
        Prompt(f"{group}-{number}", " ".join(["word"] * (1 + number % 9)), str(group))
        for group, size in enumerate(sizes)
        for number in range(size)
    ]
    size, seed = data.draw(st.integers(1, len(prompts))), data.draw(st.integers(0, 5))
    subset = stratified(prompts, size, seed)
    assert subset == stratified(prompts, size, seed)
    assert len(set(subset)) == size
    assert subset == sorted(subset, key=prompts.index)
    share, drawn = size / len(prompts), Counter(prompt.group for prompt in subset)
    for group, total in enumerate(sizes):
        assert abs(drawn[str(group)] - share * total) < 2


def test_subsets_span_short_and_long_sentences() -> None:
    prompts = [Prompt(str(number), "word " * (1 + number % 20), "list") for number in range(400)]
    lengths = sorted(len(prompt.text.split()) for prompt in stratified(prompts, 20, seed=1))
    assert lengths == list(range(1, 21))
    assert stratified(prompts, 20, seed=1) != stratified(prompts, 20, seed=2)
    with pytest.raises(ValueError, match="cannot draw 401 of 400"):
        stratified(prompts, 401)


def test_hard_list_holds_every_kind_of_difficulty() -> None:
    prompts = hard_prompts()
    kinds = Counter(prompt.group for prompt in prompts)
    assert len(prompts) >= 50
    assert len({prompt.id for prompt in prompts}) == len(prompts)
    assert min(kinds[f"hard/{kind}"] for kind in ("repeat", "digits", "letters", "word", "twister", "long")) >= 5
    words = {prompt.id: prompt.text.split() for prompt in prompts}
    assert all(len(words[prompt.id]) == 1 for prompt in prompts if prompt.group == "hard/word")
    assert all(len(words[prompt.id]) >= 60 for prompt in prompts if prompt.group == "hard/long")


def publish(monkeypatch: pytest.MonkeyPatch, name: str, page: Path) -> None:
    source = prompt_lists.PUBLISHED[name]
    moved = prompt_lists.PublishedList(page.as_uri(), source.size, source.licence, source.extract)
    monkeypatch.setitem(prompt_lists.PUBLISHED, name, moved)


def test_lists_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    # Tags of old pages are not closed, and sentences run over several lines.
    lists = "".join(f"<h2>List {n}</h2><ol>" + "<li>A <b>birch</b>\n canoe.\n" * 10 + "</ol>\n" for n in range(72))
    page.write_text(f"<html><body><h1>Harvard Sentences</h1>{lists}<hr>From the IEEE.</body></html>")
    publish(monkeypatch, "harvard", page)
    path = fetch_prompts("harvard", tmp_path / "lists")
    assert [prompt.text for prompt in read_prompts(path)] == ["A birch canoe."] * 720
    page.unlink()
    assert fetch_prompts("harvard", tmp_path / "lists") == path

    page.write_text("".join(f'( arctic_{n:04d} "Sentence {n}." )\n' for n in range(1132)))
    publish(monkeypatch, "cmu_arctic", page)
    read = read_prompts(fetch_prompts("cmu_arctic", tmp_path / "lists"))
    assert (len(read), read[7].id, read[7].text) == (1132, "arctic_0007", "Sentence 7.")


def test_fetching_problems_are_explained_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    publish(monkeypatch, "harvard", page)
    with pytest.raises(ConnectionError, match=r"Without a network, put the list at .*harvard\.txt"):
        fetch_prompts("harvard", tmp_path / "lists")
    page.write_text("<p>Moved.</p>")
    with pytest.raises(ValueError, match="gave 0 sentences instead of 720"):
        fetch_prompts("harvard", tmp_path / "lists")
    assert not (tmp_path / "lists" / "harvard.txt").exists()
    with pytest.raises(ValueError, match="choose one of cmu_arctic, harvard"):
        fetch_prompts("timit", tmp_path)
