"""American addresses: states, ZIP codes and points of the compass."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Austin, TX 78701", "austin texas seven eight seven zero one"),
        ("Portland, OR.", "portland oregon"),
        ("Los Angeles, Calif., is big", "los angeles california is big"),
        ("Tulsa, OK 74101", "tulsa oklahoma seven four one zero one"),
        ("Well, OK.", "well o k"),
        ("Thanks, Pa.", "thanks pa"),
        ("Jane Smith, MD, spoke", "jane smith m d spoke"),
        ("Wash. your hands", "wash your hands"),
        ("D.C. 20500", "d c two zero five zero zero"),
        ("62704-1234", "six two seven zero four one two three four"),
        ("20500 dollars", "twenty thousand five hundred dollars"),
        ("SW of Boise", "southwest of boise"),
        ("5 km SSE", "five kilometers south southeast"),
        ("an iPhone SE", "an iphone s e"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
