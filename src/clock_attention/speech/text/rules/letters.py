"""Letters that do not form words: initialisms, initials, codes of letters and digits, Roman numerals."""

from __future__ import annotations

import re

from clock_attention.speech.text.characters import fold
from clock_attention.speech.text.number_words import cardinal, digits, in_pairs, ordinal, roman
from clock_attention.speech.text.rules.sentence_endings import STARTERS, begins_sentence
from clock_attention.speech.text.tokens import (
    Kind,
    Part,
    Reading,
    Rule,
    after,
    before,
    before_closely,
    left_of,
    right_of,
    word_set,
)

# Read letter by letter, although they could be words.
INITIALISMS = word_set(
    "ABC AC AD AI AKA AM API APR ASAP ATM BA BBC BC BCE BMI BMW BPM CBS CD CDC CE CEO CFO CIA CIO CNN CO CPA CPR "
    "CPU CSS CTO CV DA DC DIY DJ DNA DNS DOB DUI DVD EEG EPA ER ESL ESPN EST ETA EU EUR EV FAQ FAA FBI FCC FDA FM "
    "FYI GBP GDP GDPR GMO GMT GOP GPA GPS GPU HBO HD HIV HR HQ HTML HTTP HTTPS IBM ICU ID IMHO IOU IP IPA IPO IQ "
    "IRA IRS ISBN ISO ISP IT IV JFK JPG KFC KGB LA LCD LED LGBT LLC LLM LP MBA MD MIT MLB MLK MP MRI MSNBC NAACP "
    "NBA NBC NFL NGO NHL NIH NPR NSA NY NYC NYPD NYSE NYU OCD OCR ODE OED OJ PA PBS PC PDF PE PHD PHP PM PMS PR "
    "PS PSA PST PTA PTSD RIP RNA RPM RSVP SEO SMS SOS SQL SUV TBD TCP TGIF TNT TV UAE UC UCLA UFO UI UK UN UPS URL "
    "US USA USAF USB USD USMC USS USSR UTC UTF UV UX VCR VHS VIP VP VPN VR WHO WTO WW WWF WWW XL XML YMCA"
)
ACRONYMS = word_set(
    "AIDS CAPTCHA COBOL COVID FIFA GIF IKEA JPEG JSON LASER NASA NASDAQ NATO OPEC PIN RAM RADAR ROM SAT SCUBA SIM "
    "SWAT TOML UNESCO UNICEF YAML ZIP"
)
SHORT_WORDS = word_set(
    "A ACT ADD AGE AGO AID AIM AIR ALL AN AND ANY ARE ARM ART AS ASK AT BAD BAG BAN BAR BE BED BET BIG BIT BOX "
    "BOY BUS BUT BUY BY CAN CAR CAT CUT DAY DID DIE DO DOG DRY DUE EAT END EYE FAN FAR FAT FEW FIT FLY FOR FUN "
    "GET GO GOD GOT GUN GUY HAD HAS HAT HE HER HEY HIM HIS HIT HOT HOW I IF ILL IN IS ITS JOB JOY KEY KID LAW LAY "
    "LEG LET LIE LOT LOW MAD MAN MAP MAX MAY ME MEN MET MIX MOM MUST MY NEW NO NOR NOT NOW OF OFF OH OIL OLD ON ONE "
    "OR OUR OUT OWN PAY PEN PER PET PUT RAN RED RUN SAD SAW SAY SEE SET SHE SIT SIX SO SON SUN TAX TEA TEN THE TO "
    "TOO TOP TRY TWO UP USE VAN WAR WAS WAY WE WET WHY WIN WON WOW YES YET YOU ZOO AH HA UH UM OW MR MRS MS DR ST"
)
LETTERED = word_set(
    "plan vitamin class type grade group option part section point letter hepatitis figure exhibit building gate "
    "team track model appendix side block item level schedule"
)
NUMBERED = word_set(
    "chapter part act scene section volume book phase article war mark type level stage class grade bowl apollo "
    "gemini fantasy episode round title appendix figure table schedule page vol ch sec division category tier "
    "unit step rocky p pp version generation gen factor pentium"
)
REGNAL = word_set(
    "Henry Louis Edward George William Charles James Richard Elizabeth Napoleon Pius Benedict Leo Paul John "
    "Ramses Ramesses Frederick Philip Alexander Nicholas Peter Catherine Ivan Umberto Emmanuel Gustav Christian "
    "Ferdinand Mary Francis Innocent Gregory Urban Clement Haakon Harald Olav Carl Christina Margrethe Juan "
    "Carlos Pedro Alfonso Leopold Albert Otto Ludwig Wilhelm Franz Joseph Maximilian Constantine Justinian "
    "Theodosius Ptolemy Cleopatra Thutmose Amenhotep Seti Darius Xerxes Cyrus Mehmed Selim Suleiman Murad Victor"
)
ROYAL = word_set("King Queen Pope Emperor Empress Tsar Czar Kaiser Prince Sultan Pharaoh")
RE_UPPER_NEIGHBOURS = re.compile(r"[A-Z]{2,}")
PLURAL = {"s": "s", "'s": "'s"}


def named(letters: str) -> str:
    """ "FBI" → "F.B.I.": letters to be read one by one."""
    return "".join(f"{letter}." for letter in letters.upper())


def read_letters(letters: str) -> str:
    """A run of capital letters without context: read as a word if known or pronounceable, else letter by letter."""
    if letters in ACRONYMS or (letters not in INITIALISMS and len(letters) > 3 and pronounceable(letters)):
        return letters.lower()
    return named(letters)


def pronounceable(letters: str) -> bool:
    """Whether a run of letters can be pronounced as a word."""
    return re.search("[AEIOUY]", letters) is not None and re.search("[^AEIOUY]{4}", letters) is None


def shouted(match: re.Match[str]) -> bool:
    """Whether capital letters are shouted: a word next to them is in capitals too, and is not an initialism."""
    left = re.search(r"(\w+)\W{1,3}$", left_of(match, 24))
    right = re.match(r"\W{1,3}(\w+)", right_of(match, 24))
    neighbours = [found[1] for found in (left, right) if found]
    return any(
        word.isupper()
        and word.isalpha()
        and len(word) > 1
        and word not in INITIALISMS
        and (word in SHORT_WORDS or (len(word) > 3 and pronounceable(word)))
        for word in neighbours
    )


def read_capitals(match: re.Match[str]) -> Reading:
    """Capital letters in a text: an initialism, an acronym, or a shouted word."""
    letters, ending = match[1], (match[2] or "").lower()
    if (letters in SHORT_WORDS and letters not in INITIALISMS) or (shouted(match) and pronounceable(letters)):
        return (Part(match.group(), letters.lower() + ending, Kind.WORD),)
    if letters in ACRONYMS or (letters not in INITIALISMS and len(letters) > 3 and pronounceable(letters)):
        return (Part(match.group(), letters.capitalize() + ending, Kind.WORD),)
    return named(letters) + ending


def read_dotted(match: re.Match[str]) -> Reading:
    """Dotted letters: U.S. or J.R.R.; the last stop may end the sentence."""
    letters = re.sub("[^A-Za-z]", "", match[1])
    ending = match[2] or ""
    spoken = named(letters) + ending
    written = match.group()
    if written.endswith(".") and begins_sentence(match.string, match.end(), after_abbreviation=True):
        return [Part(written[:-1], spoken), Part(".", ".", Kind.MARK, ends_sentence=True)]
    return [Part(written, spoken)]


def read_initial(match: re.Match[str]) -> Reading:
    """The letter of an initial, "J." in a name; "So did I." and "plan B." end sentences."""
    letter, previous, following = match[1], before_closely(match), after(match)
    if not following[:1].isupper() or following.lower() in STARTERS:
        return None
    if (previous.islower() and letter == "I") or previous.lower() in LETTERED:
        return None
    return f"{letter}."


def read_letter_a(match: re.Match[str]) -> Reading:
    """The letter A where it is not the article: plan A, an A in math, (a)."""
    if left_of(match, 1) == "(" and right_of(match, 1) == ")":
        return named("A")
    if match.group() == "a":
        return None
    return (
        named("A")
        if before_closely(match).lower() in LETTERED | {"an", "the", "straight", "triple", "double"}
        else None
    )


def read_joined_letters(match: re.Match[str]) -> Reading:
    """Letters joined by "&": AT&T, R&D, Q&A."""
    first, last = match.group().split("&")
    return f"{named(first)} and {named(last)}"


def read_language(match: re.Match[str]) -> Reading:
    """Letters in the names of programming languages: C++, C#, F#."""
    signs = {"#": "sharp", "+": "plus"}
    return " ".join([named(match[1]), *(signs[sign] for sign in match[2])])


def read_code(match: re.Match[str]) -> Reading:
    """Codes of letters and digits: B12, CO2, F-16, COVID-19, R2-D2, 221B."""
    written = match.group()
    pieces = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", written)
    if not any(piece.isdecimal() for piece in pieces) or not any(piece.isalpha() for piece in pieces):
        return None
    if "-" in written and any(piece.islower() and len(piece) > 1 for piece in pieces):
        return None  # 9-to-5, mid-1970s
    if written in ("B2B", "B2C", "C2C", "D2C", "P2P", "M2M"):
        return f"{named(written[0])} to {named(written[2])}"
    if before_closely(match).lower() in ("number", "no", "serial"):  # copied down, not spoken as a name
        return " ".join(digits(piece) if piece.isdecimal() else read_piece(piece) for piece in pieces)
    return " ".join(read_piece(piece) for piece in pieces)


def read_piece(piece: str) -> str:
    """One part of a code: letters are spelled out or read as a word, digits are read in pairs."""
    if piece.isdecimal():
        return digits(piece) if piece[0] == "0" or len(piece) > 4 else in_pairs(piece)
    if len(piece) == 1:
        return named(piece)
    if piece.isupper():
        return read_letters(piece)
    return piece if re.search("[aeiouy]", piece.lower()) and len(piece) > 2 else named(fold(piece))


def read_snake(match: re.Match[str]) -> Reading:
    """Letters with underscores: snake_case."""
    pieces = [piece for piece in re.findall(r"[^\W\d_]+|\d+|_+", match.group()) if piece]
    return " ".join("underscore" if piece[0] == "_" else read_piece(piece) for piece in pieces)


def read_roman(match: re.Match[str]) -> Reading:
    """Letters as Roman numerals: Chapter IV, Henry VIII's, the XIX century. A lone I, V or X needs a clear context."""
    number = roman_number(match)
    return number and number + (match[2] or "")


def roman_number(match: re.Match[str]) -> str | None:
    """A Roman numeral in words, cardinal or ordinal depending on the context; None if it is not one."""
    written, previous = match[1], before_closely(match)
    value = roman(written)
    if not value or (written.islower() and previous.lower() not in NUMBERED):
        return None
    closed = re.match(r"\s*(?:[.,;:)\]]|$)", right_of(match, 2)) is not None
    if previous.lower() in NUMBERED and (written not in "CDLM" or len(written) > 1):
        return cardinal(value) if written != "I" or previous[0].isupper() or closed else None  # "in this chapter I say"
    if after(match).lower() in ("century", "centuries", "dynasty"):
        return ordinal(value)
    if written == "I":
        title = re.search(r"(\w+) \w+ $", left_of(match, 32))
        expected = previous in REGNAL and (closed or after(match) == "of" or (title is not None and title[1] in ROYAL))
        return f"the {ordinal(value)}" if expected else None
    if len(written) == 1:
        return f"the {ordinal(value)}" if previous in REGNAL and written in "VX" else None
    if previous in REGNAL or (previous[:1].isupper() and set(written) <= set("IVX") and before(match) == previous):
        return f"the {ordinal(value)}"
    return None


def read_numbered_part(match: re.Match[str]) -> Reading:
    """Numbers and letters of a part: Section III.B.2."""
    value = roman(match[1])
    if not value or before_closely(match).lower() not in NUMBERED:
        return None
    return " ".join([cardinal(value), *(read_piece(piece) for piece in match[2][1:].split("."))])


RULES = [
    Rule(Kind.CODE, "l", re.compile(r"\b([A-Z])(#|\+\+)(?!\w)"), read_language),
    Rule(Kind.INITIALISM, "l", re.compile(r"\b[A-Z]{1,3}&[A-Z]{1,2}(?!\w)"), read_joined_letters),
    Rule(Kind.INITIALISM, "l", re.compile(r"\b(Ph\.? ?D)(?:\.|(?!\w))('?s)?(?!\w)"), read_dotted),
    Rule(Kind.INITIALISM, "l", re.compile(r"\b((?:[A-Za-z]\.){1,7}[A-Za-z]\b)\.?('?s)?(?!\w)"), read_dotted),
    Rule(Kind.INITIALISM, "l", re.compile(r"\b([A-Z])\.(?=\s)"), read_initial),
    Rule(Kind.INITIALISM, "l", re.compile(r"\b[Aa](?![\w'.-])"), read_letter_a),
    Rule(Kind.ROMAN, "l", re.compile(r"\b([IVXLCDM]{1,12}|[ivxlc]{1,10})('s)?(?![\w'&]|\.\w)"), read_roman),
    Rule(Kind.ROMAN, "l", re.compile(r"\b([IVX]{1,6})((?:\.(?:[A-Z]|\d{1,2})){1,3})(?![\w-])"), read_numbered_part),
    Rule(Kind.CODE, "dl", re.compile(r"\b[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,3}(?![\w])"), read_code),
    Rule(Kind.CODE, "l", re.compile(r"\b[A-Za-z0-9]{1,30}(?:_[A-Za-z0-9]{1,30}){1,8}_?(?!\w)"), read_snake),
    Rule(Kind.INITIALISM, "l", re.compile(r"\b([A-Z]{2,8})('?s)?(?![\w'])"), read_capitals),
]
