"""Varied English sentences from a seeded grammar over common words: text for a corpus if none is available.

The words are chosen so that a few hundred sentences contain every English phoneme, the rare ones (the ends of
"vision", "boy", "judge", "both", "book") included, and statements, questions, commands, numbers and lists all occur.
"""

from __future__ import annotations

import random


def _words(text: str) -> list[str]:
    """Split a string into words of the grammar."""
    return text.split()


def _phrases(text: str) -> list[str]:
    """Split a string into phrases of the grammar, at "|"."""
    return [" ".join(phrase.split()) for phrase in text.split("|")]


NAMES = _words("""
    Alice Joyce George Ruth Roy Victoria Matthew Beth Louise Howard Nigel Zoe Hugh Maya Owen Frank Jean Theo Sasha
    Walter Edith Julian Martha Boyd Fiona Keith Norah Ethan Grace Yvonne
""")
PLACES = _words("""
    London Texas China Egypt Boston Asia Norway Ohio Kenya Illinois Perth Zurich Jordan Oxford Utah Troy Georgia
    Hawaii Vienna Jamaica
""")
PEOPLE = _words("""
    teacher doctor farmer soldier judge nurse child sailor lawyer painter pilot mother brother neighbor stranger king
    officer singer butcher guard engineer employer musician physician cowboy youth author baker thief mayor expert
""")
THINGS = _words("""
    house river book window garden table letter ship church engine picture bottle measure treasure machine kitchen
    bridge feather voice coin wheel mountain ocean road clock beach vision garage jewel shoe button basket yard cloud
    forest island bell theater path leather sugar orange wool pool cushion television oyster oil fire hour tower
    flower mirror square chair year beer cure tour newspaper telephone umbrella potato piano violin bicycle cathedral
    dictionary photograph magazine mathematics university decision network partition corduroy viewpoint poinsettia
""")
COUNTED = _words("""
    houses rivers books windows tables letters ships churches pictures bottles machines bridges feathers voices coins
    wheels mountains roads clocks beaches jewels shoes buttons baskets clouds paths oranges cushions towers chairs
""")
QUALITIES = _words("""
    old young small heavy bright quiet cheap royal usual noisy thin thick smooth pure foolish beautiful pleasant
    dangerous enormous yellow purple orange brown white foggy useful curious strange rough gentle broken hidden golden
    wooden empty crowded precious ancient northern southern unusual thirsty hungry joyful awkward casual genuine
    average ordinary mysterious comfortable necessary enjoyable artistic sarcastic
""")
ACTIONS = _words("""
    found bought watched opened measured carried closed painted followed remembered noticed pushed pulled avoided
    enjoyed destroyed borrowed fixed searched washed moved loved used touched judged sold showed caught taught brought
    chose threw heard covered finished visited polished reached admired photographed exchanged
""")
ORDERS = _words("""
    find buy watch open measure carry close paint follow remember push pull avoid enjoy fix search wash move touch
    choose throw cover finish visit reach bring show catch use
""")
MOTIONS = _words("""
    walked traveled ran drove moved waited stood worked slept lived rushed sang laughed argued stayed played smoked
    danced sailed wandered
""")
PLACEMENTS = _phrases("""
    near the shore | behind the church | under the bridge | across the valley | through the woods | beneath the oak |
    on the roof | beyond the village | beside the fire | in the usual place | around the corner | between the towers |
    above the clouds | without the others | along the south road | inside the theater | over there
""")
TIMES = _phrases("""
    yesterday | tonight | this morning | last Thursday | every year | at noon | before breakfast | after the war | in
    July | in the spring | on the ninth of March | at seven o'clock | long ago | for an hour | once or twice | without
    a sound | with great pleasure | rather badly | quickly | slowly | carefully | together | as usual
""")
OPENINGS = _phrases("""
    Fortunately | In truth | As usual | However | At first | Later | Of course | Once again | By then | In those days
    | For my part | Without doubt | Meanwhile
""")
SHORT = _phrases("""
    Thank you, sir | Good morning to you | I could not agree more | That is all we know | Nothing else was heard | Oh
    boy, was it loud | We shall see about that | Please be quiet, both of you | Yes, of course you may | They were not
    amused | He shook his head and left | You took the wrong book | Put it back, would you | The rouge on her cheeks
    was beige
""")
LINKS = ["and", "but", "because", "while", "although", "so", "before", "until", "when", "which is why", "even though"]
REMARKS = ["What", "Such", "Here comes the", "Mind the", "Look at that"]
QUESTIONS = ["Why did", "When did", "How often did", "Where did", "Did", "Could", "Would", "Should"]


class Grammar:
    """A seeded grammar of English that generates sentences; the same seed gives the same sentences."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"grammar:{seed}")

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def number(self) -> str:
        kind = self.random.random()
        if kind < 0.6:
            return str(self.random.randint(2, 99))
        return str(self.random.randint(100, 999) if kind < 0.8 else self.random.randint(1, 9) * 1000)

    def thing(self) -> str:
        if self.chance(0.12):
            return f"{self.number()} {self.pick(*QUALITIES)} {self.pick(*COUNTED)}"
        described = f"{self.pick(*QUALITIES)} {self.pick(*THINGS)}" if self.chance(0.6) else self.pick(*THINGS)
        return (
            f"{self.pick('the', 'the', 'that', 'this', 'her', 'his', 'our', 'their', 'your', 'my', 'each')} {described}"
        )

    def person(self) -> str:
        if self.chance(0.3):
            return self.pick(*NAMES)
        if self.chance(0.3):
            return self.pick("he", "she", "they", "we", "you", "I", "nobody", "everyone", "both of them")
        described = f"{self.pick(*QUALITIES)} {self.pick(*PEOPLE)}" if self.chance(0.5) else self.pick(*PEOPLE)
        return f"{self.pick('the', 'that', 'this', 'another', 'my', 'your', 'no other')} {described}"

    def setting(self) -> str:
        return self.pick(self.pick(*PLACEMENTS), self.pick(*TIMES), f"in {self.pick(*PLACES)}")

    def clause(self) -> str:
        if self.chance(0.35):
            return f"{self.person()} {self.pick(*MOTIONS)} {self.setting()}"
        ending = f" {self.setting()}" if self.chance(0.5) else ""
        return f"{self.person()} {self.pick(*ACTIONS)} {self.thing()}{ending}"

    def listing(self) -> str:
        return f"{self.person()} {self.pick(*ACTIONS)} {self.thing()}, {self.thing()}, and {self.thing()}"

    def order(self) -> str:
        please = self.pick("Please ", "Do not ", "Never ", "Always ", "")
        return f"{please}{self.pick(*ORDERS)} {self.thing()} {self.setting()}"

    def question(self) -> str:
        return f"{self.pick(*QUESTIONS)} {self.person()} {self.pick(*ORDERS)} {self.thing()}"

    def sentence(self) -> str:
        kind = self.random.random()
        if kind < 0.35:
            words = f"{self.clause()}."
        elif kind < 0.60:
            words = f"{self.clause()}, {self.pick(*LINKS)} {self.clause()}."
        elif kind < 0.70:
            words = f"{self.pick(*OPENINGS)}, {self.clause()}."
        elif kind < 0.78:
            words = f"{self.listing()}."
        elif kind < 0.86:
            words = f"{self.question()}?"
        elif kind < 0.92:
            words = f"{self.order()}{self.pick('.', '!')}"
        elif kind < 0.96:
            remark, quality = self.pick(*REMARKS), self.pick(*QUALITIES)
            article = "" if remark.endswith(("the", "that")) else "an" if quality[0] in "aeio" else "a"
            words = f"{remark} {article} {quality} {self.pick(*THINGS)}!"
        else:
            words = f"{self.pick(*SHORT)}{self.pick('.', '!')}"
        words = " ".join(words.split())
        return words[0].upper() + words[1:]


def generate_sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """`count` different sentences of the grammar, as (id, text)."""
    grammar = Grammar(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[grammar.sentence()] = None
    return [(f"grammar{seed}-{number:06d}", text) for number, text in enumerate(found)]
