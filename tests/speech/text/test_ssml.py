"""SSML: what each element says about the text, errors with line and column, and hostile documents."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.text.controls import Prosody
from clock_attention.speech.text.sentences import sentences_of
from clock_attention.speech.text.ssml import LONGEST, SsmlError, parse_ssml


def speak(content):
    return parse_ssml(f"<speak>{content}</speak>")


def spoken(content):
    document = speak(content)
    return [sentence.spoken for sentence in sentences_of(document.text, document.given)]


def test_readings_sentences_and_paragraphs():
    assert spoken('<sub alias="World Wide Web">WWW</sub> is old') == ["World Wide Web is old"]
    assert spoken('<say-as interpret-as="characters">AB1</say-as>') == ["A. B. one"]
    assert spoken("<s>one</s><s>two</s>") == ["one", "two"]
    document = speak("<p>one</p> <p>two &amp; <![CDATA[<three>]]></p>")
    assert [s.ends_paragraph for s in sentences_of(document.text)] == [True, True]
    assert document.text.endswith("two & <three>\n\n")


def test_a_pronunciation_is_kept_as_given():
    assert speak('<phoneme ph="ʃɪˈvɔːn">Siobhan</phoneme>').given[0].pronunciation == "ʃɪˈvɔːn"


def test_prosody_is_nested():
    document = speak('a <prosody rate="50%" pitch="+2st">b <prosody rate="fast" volume="-6dB">c</prosody></prosody> d')
    assert [document.text[span.start : span.end] for span in document.spans] == ["b c", "c"]
    assert document.spans[1].prosody == Prosody(0.5 * 1.25, 2.0, -6.0)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ('rate="+20%"', Prosody(1.2)),
        ('rate="0.5"', Prosody(0.5)),
        ('rate="x-fast"', Prosody(1.6)),
        ('pitch="+100%"', Prosody(pitch=12.0)),
        ('pitch="low"', Prosody(pitch=-2.5)),
        ('volume="+4.5dB"', Prosody(energy=4.5)),
        ('volume="soft"', Prosody(energy=-6.0)),
    ],
)
def test_prosody_values(attribute, expected):
    assert speak(f"<prosody {attribute}>word</prosody>").spans[0].prosody == expected


def test_breaks_marks_and_durations():
    document = speak(
        'a <mark name="m"/><break time="1.5s"/> b <break strength="weak"/><prosody duration="800ms">c</prosody>'
    )
    assert [seconds for _, seconds in document.breaks] == [1.5, 0.2]
    assert document.marks == ((2, "m", 0),)
    assert document.spans[0].seconds == 0.8


@pytest.mark.parametrize(
    ("source", "line", "column", "about"),
    [
        ("hello", 1, 1, "syntax error"),
        ("<p>hello</p>", 1, 1, "expected <speak>"),
        ("<speak>\n <voice>x</voice></speak>", 2, 2, "<voice> is not supported"),
        ('<speak>ééé<break time="soon"/></speak>', 1, 11, 'time="soon"'),
        ('<speak><break time="61s"/></speak>', 1, 8, "at most 60"),
        ('<speak><prosody pitch="200Hz">a</prosody></speak>', 1, 8, "semitones"),
        ('<speak><prosody contour="x">a</prosody></speak>', 1, 8, "contour"),
        ("<speak><prosody>a</prosody></speak>", 1, 8, "none of rate"),
        ('<speak><prosody rate="900%">a</prosody></speak>', 1, 8, "pace"),
        ('<speak><prosody duration="0s">a</prosody></speak>', 1, 8, "positive"),
        ("<speak>a<sub>b</sub></speak>", 1, 9, "alias"),
        (f'<speak><sub alias="{"1/" * 251}">b</sub></speak>', 1, 525, "alias of 502 characters, expected at most 500"),
        (f'<speak><phoneme ph="{"a" * 501}">b</phoneme></speak>', 1, 524, "ph of 501 characters"),
        ('<speak><sub alias="b"><s>x</s></sub></speak>', 1, 23, "<s> inside <sub>"),
        ('<speak><say-as interpret-as="song">la</say-as></speak>', 1, 37, "interpret-as"),
        ('<speak><say-as interpret-as="ordinal">la</say-as></speak>', 1, 41, "cannot be read as ordinal"),
        ('<speak><phoneme ph="☃">x</phoneme></speak>', 1, 25, "no IPA symbol"),
        ('<speak><phoneme alphabet="x-sampa" ph="a">x</phoneme></speak>', 1, 45, "expected ipa"),
        ("<speak>a & b</speak>", 1, 11, "&amp;"),
        ("<speak>a</s></speak>", 1, 11, "mismatched"),
        ("<speak>" + "<s>" * 41, 1, 125, "more than 40"),
        ("<speak>" + "a" * LONGEST + "</speak>", None, None, "at most"),
    ],
)
def test_errors_say_where_and_what(source, line, column, about):
    with pytest.raises(SsmlError) as error:
        parse_ssml(source)
    assert about in str(error.value)
    if line:
        assert str(error.value).startswith(f"line {line}, column ")
        assert abs(int(str(error.value).split("column ")[1].split(":")[0]) - column) <= 2


@pytest.mark.parametrize(
    "source",
    [
        '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><speak>&b;</speak>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><speak>a</speak>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><speak>&a;</speak>',
        '<?xml version="1.0" encoding="utf-7"?><speak>+ADw-</speak>&',
        "<speak>&nbsp;</speak>",
        "<speak>\x00</speak>",
        "<speak>\ud800</speak>&",
        "",
    ],
)
def test_nothing_is_expanded_and_nothing_is_fetched(source):
    with pytest.raises(SsmlError):
        parse_ssml(source)


NAMES = ("speak", "p", "s", "break", "prosody", "emphasis", "sub", "say-as", "phoneme", "mark", "voice")
VALUES = st.text(alphabet="0123456789+-%stdBm xhigloweérn&;<\"'", max_size=8)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(("time", "rate", "pitch", "duration", "alias", "ph", "name", "level")), VALUES
)


def tag(name, attributes, end):
    return f"<{name}" + "".join(f' {key}="{value}"' for key, value in attributes.items()) + f"{end}>"


PIECES = st.one_of(
    st.text(max_size=12),
    st.builds(lambda name: f"</{name}>", st.sampled_from(NAMES)),
    st.builds(tag, st.sampled_from(NAMES), ATTRIBUTES, st.sampled_from(("", "/"))),
    st.sampled_from(
        ("&amp;", "&lt;", "&#0;", "&#x1F600;", "<!--", "-->", "<![CDATA[", "]]>", "<?x", "?>", "<!DOCTYPE a>")
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12))
def test_any_document_is_read_or_refused_in_one_sentence(pieces):
    try:
        document = speak("".join(pieces))
    except SsmlError:
        return
    for span in document.spans:
        assert 0 <= span.start <= span.end <= len(document.text)
    for token in document.given:
        assert document.text[token.start : token.end] == token.text
    assert all(0 <= place <= len(document.text) for place, *_ in (*document.breaks, *document.marks))
