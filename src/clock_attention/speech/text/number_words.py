"""Numbers in American English words, without "and": 105 is "one hundred five"."""

from __future__ import annotations

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion")
LONGEST_NUMBER = 15  # digits; longer numbers are read digit by digit
IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def below_thousand(number: int) -> list[str]:
    """Words of a number below one thousand."""
    hundreds, rest = divmod(number, 100)
    words = [ONES[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words += [TENS[rest // 10], *([ONES[rest % 10]] if rest % 10 else [])]
    elif rest:
        words.append(ONES[rest])
    return words


def cardinal(number: int) -> str:
    """A number in words: 1234 → "one thousand two hundred thirty four"; very long ones digit by digit."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number == 0:
        return "zero"
    if number >= 10**LONGEST_NUMBER:
        return digits(str(number))
    groups: list[str] = []
    scale = 0
    while number:
        number, group = divmod(number, 1000)
        if group:
            groups[:0] = [*below_thousand(group), *([SCALES[scale]] if scale else [])]
        scale += 1
    return " ".join(groups)


def ordinal(number: int) -> str:
    """An ordinal number in words: 42 → "forty second"."""
    *head, last = cardinal(number).split()
    last = IRREGULAR_ORDINALS.get(last) or (last[:-1] + "ieth" if last.endswith("y") else last + "th")
    return " ".join([*head, last])


def year(number: int) -> str:
    """A year in words: 1905 → "nineteen oh five", 2005 → "two thousand five", 1900 → "nineteen hundred"."""
    high, low = divmod(number, 100)
    if not 10 <= high < 100 or (high % 10 == 0 and low < 10):
        return cardinal(number)
    return f"{cardinal(high)} {'hundred' if low == 0 else two_digits(low)}"


def two_digits(number: int) -> str:
    """A two-digit number: 5 → "oh five", 45 → "forty five", as in years, times and house numbers."""
    return f"oh {ONES[number]}" if number < 10 else cardinal(number)


def in_pairs(written: str) -> str:
    """A number in pairs of digits, as for houses and flights: 101 → "one oh one", 747 → "seven forty seven"."""
    number = int(written)
    if len(written) not in (3, 4) or written[0] == "0" or number % 1000 == 0:
        return cardinal(number) if written[0] != "0" else digits(written)
    high, low = divmod(number, 100)
    return f"{cardinal(high)} {'hundred' if low == 0 else two_digits(low)}"


def digits(written: str) -> str:
    """A number read digit by digit; other characters are skipped."""
    return " ".join(ONES[int(digit)] for digit in written if digit.isdecimal())


def decimal(written: str) -> str:
    """A decimal number in words: "3.14" → "three point one four"; commas are skipped, trailing zeros are read."""
    whole, _, fraction = written.replace(",", "").partition(".")
    words = integer(whole) if whole else ""
    return f"{words} point {digits(fraction)}".strip() if fraction else words


def integer(written: str) -> str:
    """A number from a run of digits: in words, or digit by digit if it begins with 0 or is too long to have a name."""
    if len(written) > LONGEST_NUMBER or (len(written) > 1 and written[0] == "0"):
        return digits(written)
    return cardinal(int(written))


def plural(words: str) -> str:
    """The plural of a number in words: "nineteen ninety" → "nineteen nineties", "six" → "sixes"."""
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


def roman(written: str) -> int:
    """The value of a Roman numeral; 0 for anything that is not one."""
    values = [ROMAN_DIGITS.get(letter, 0) for letter in written.upper()]
    total = sum(
        -value if value < following else value for value, following in zip(values, [*values[1:], 0], strict=False)
    )
    return total if all(values) and written.upper() == as_roman(total) else 0


def as_roman(number: int) -> str:
    """A number as a Roman numeral; "" if it has none."""
    if not 0 < number < 4000:
        return ""
    written = ""
    steps = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"))
    for value, letters in (*steps, (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        count, number = divmod(number, value)
        written += letters * count
    return written
