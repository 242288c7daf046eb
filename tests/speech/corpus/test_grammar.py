from clock_attention.speech.corpus.grammar import generate_sentences
from clock_attention.speech.text.hibari import HibariPhonemizer


def test_three_hundred_sentences_contain_every_symbol() -> None:
    reader = HibariPhonemizer()
    used = {token for _, text in generate_sentences(300, seed=0) for token in reader(text).tokens}
    assert used == set(reader.symbols)


def test_sentences_are_seeded_different_and_well_formed() -> None:
    texts = [text for _, text in generate_sentences(500, seed=1)]
    assert texts == [text for _, text in generate_sentences(500, seed=1)]
    assert texts != [text for _, text in generate_sentences(500, seed=2)]
    assert len(set(texts)) == len({name for name, _ in generate_sentences(500, seed=1)}) == 500
    for text in texts:
        assert text[0].isupper()
        assert text[-1] in ".!?"
        assert "  " not in text
        assert " a a" not in text.lower()
        assert " ." not in text
    assert min(map(len, texts)) < 30 < 90 < max(map(len, texts))
