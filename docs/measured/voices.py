"""Tables of voices: sound, own voices, vocoders, cost of speaking."""

from __future__ import annotations

from typing import Any

from measured.writing import interval, made, over_seeds, percent_interval, read, table


@made
def vocoder_speed() -> str:
    rows = (
        [row["frames"], f"{row['published']:.2f}", f"{row['ours']:.2f}", interval(row["ratio"]), f"{row['error']:.0e}"]
        for row in read("vocoder")
    )
    return table(["mel frames", "published module", "this package", "ratio [range]", "max difference of samples"], rows)


@made
def vocoder_quality() -> str:
    def cells(row: dict[str, Any]) -> list[str]:
        scores = [f"{row[key][0]:.2f} ± {row[key][1]:.2f}" for key in ("distillmos", "dnsmos", "pesq")]
        return [
            *scores,
            f"{row['stoi'][0]:.3f}",
            f"{100 * row['wer']:.1f} %",
            f"{row['cpu']:.3f}" if row["cpu"] else "–",
        ]

    rows = (
        [source, name, *cells(row)] for source, found in read("copy_synthesis").items() for name, row in found.items()
    )
    return table(["source", "vocoder", "DistillMOS", "DNSMOS", "PESQ", "STOI", "WER", "CPU s per s"], rows)


@made
def speak() -> str:
    rows = read("speak")["text_to_mel"]
    paces = sorted({row["pace"] for row in rows})
    found = {(row["text"], row["pace"]): f"{row['of real time']:.4f}" for row in rows}
    texts = dict.fromkeys(row["text"] for row in rows)
    return table(["text", *(f"pace {pace:g}" for pace in paces)], ([t, *(found[t, p] for p in paces)] for t in texts))


@made
def voice_sound() -> str:
    return sound_of("default, pace 1")


@made
def teacher_sound() -> str:
    return sound_of("teacher")


@made
def default_card() -> str:
    """Opinion scores, word error rate and sharpness on the default voice's card."""
    names = {"default, pace 1": "this voice", "copy-synthesis": "copy-synthesis", "teacher": "teacher"}
    found = {row["name"]: row for row in read("sound")["rows"]}
    head = ["", "DistillMOS", "DNSMOS overall", "WER, Moonshine tiny", "movement in time / across bins", "variance"]
    rows = []
    for name, label in names.items():
        row = found[name]
        movement = " / ".join(interval(row[key]) for key in ("time", "bins"))
        wer = percent_interval(row["wer"])
        rows.append(
            [label, interval(row["distillmos"]), interval(row["dnsmos"]), wer, movement, interval(row["variance"])]
        )
    return table(head, rows)


@made
def sound() -> str:
    return sound_table("sound")


@made
def sound_small() -> str:
    return sound_table("sound_small")


@made
def sound_flow() -> str:
    return sound_table("sound_flow")


@made
def cepstral_floor() -> str:
    found = read("cepstral_floor")["distances"]
    return table(["", *found], [["cepstral distance", *(interval(value) for value in found.values())]])


@made
def cepstral_breakdown() -> str:
    """Distance with true and predicted inputs, one row for each run."""
    keys = ("true", "own_energy", "own_pitch", "own_both", "all_own", "time", "bins")
    names = {
        "small": "preset `small`, from scratch",
        "first": "default voice before its last 1,200 steps",
        "second": "default voice",
    }
    rows = [[names[row["run"]], *(interval(row[key]) for key in keys)] for row in read("cepstral_breakdown")]
    heads = ["all true", "own energy", "own pitch", "both own", "all own, after DTW", "movement, time", "bins"]
    return table(["", *heads], rows)


def sound_table(name: str) -> str:
    names = {
        "default, pace 1": "default voice",
        "attention, pace 1": "voice `attention`",
        "small, pace 1": "preset `small`",
        "small, pace 1.6667": "preset `small`, 0.6 of its natural duration",
        "voice-l1, pace 1": "L1 alone",
        "candidate, pace 1": "with the discriminator",
    }
    keys = ("distillmos", "dnsmos", "time", "bins", "variance", "cepstral_distance")
    rows = [
        [
            names.get(row["name"], row["name"].replace("voice-flow, pace 1", "flow")),
            percent_interval(row["wer"]),
        ]
        + [interval(row[key]) for key in keys]
        + [f"{row['cpu_per_second']:.2f}" if row.get("cpu_per_second") else ""]
        for row in read(name)["rows"]
    ]
    heads = ["WER", "DistillMOS", "DNSMOS", "movement, time", "bins", "variance", "cepstral distance", "CPU s per s"]
    return table(["", *heads], rows)


@made
def own_voice() -> str:
    """Voices of one reader by the amount of recordings and the training time."""
    found = {(row["recorded"], row["trained"]): row for row in read("own_voice")["rows"]}
    recorded, trained = (sorted({key[place] for key in found}) for place in (0, 1))
    rows = [
        [
            f"{minutes:g} min",
            name,
            *(show(found[minutes, time]) if (minutes, time) in found else "" for time in trained),
        ]
        for minutes in recorded
        for name, show in (
            ("WER", lambda row: percent_interval(row["wer"])),
            ("DistillMOS", lambda row: interval(row["distillmos"])),
            ("similarity", lambda row: interval(row["similarity"])),
            ("movement / variance", lambda row: f"{row['movement']:.2f} / {row['variance']:.2f}"),
        )
    ]
    return table(["recorded", "", *(f"{time:g} minutes of one core" for time in trained)], rows)


@made
def kathleen() -> str:
    """The human voice compared with its reader's recordings, through the same vocoder."""
    row = read("kathleen")["row"]
    wer = percent_interval(row["wer"])
    ratio = row["similarity"][0] / row["similarity_copy"][0]
    lines = [
        ["WER, Moonshine tiny", wer, "", "≤ 6 %"],
        ["DistillMOS", interval(row["distillmos"]), interval(row["distillmos_copy"]), "≥ 3.5"],
        ["DNSMOS overall", interval(row["dnsmos"]), interval(row["dnsmos_copy"]), "≥ 2.9"],
        [
            "speaker similarity to the reader",
            interval(row["similarity"]),
            interval(row["similarity_copy"]),
            "≥ 0.85 times the recordings'",
        ],
        ["the same, as a ratio to the recordings'", f"{ratio:.2f}", "1", "≥ 0.85"],
        ["movement in time / across bins", f"{row['movement']:.2f} / {row['bins']:.2f}", "1 / 1", "0.9 … 1.1"],
        ["variance", f"{row['variance']:.2f}", "1", "0.9 … 1.1"],
        ["words skipped / repeated, by the alignment", f"{row['skips']} / {row['repeats']}", "", "0 / 0"],
    ]
    return table(["", "voice `kathleen`", "her recordings through the vocoder", "goal"], lines)


@made
def base_voices() -> str:
    """The same recordings fine-tuned from several voices."""
    names = {
        "default": "`default`, one synthetic speaker",
        "duo": "both speakers, 2,000 further steps",
        "kathleen": "`kathleen`, one human speaker",
    }
    rows = []
    for base, name in names.items():
        found = [row for row in read("base_voices")["rows"] if row["base"] == base]

        def measured(key: str, factor: float = 1, digits: int = 2, found: list[dict[str, Any]] = found) -> str:
            values = [factor * (row[key][0] if isinstance(row[key], list) else row[key]) for row in found]
            return over_seeds(values, digits)

        skips = sum(row["skips"] + row["repeats"] for row in found)
        rows.append(
            [name, measured("wer", 100, 1)]
            + [measured(key) for key in ("distillmos", "dnsmos", "similarity", "movement", "variance")]
            + [str(skips)]
        )
    heads = ["WER, %", "DistillMOS", "DNSMOS", "similarity", "movement in time", "variance", "skips and repeats"]
    return table(["started from", *heads], rows)


@made
def sound_paces() -> str:
    return opinions_table(read("sound_paces")["rows"])


@made
def sound_voices() -> str:
    return opinions_table(read("sound_voices")["rows"])


@made
def kathleen_paces() -> str:
    rows = read("kathleen_paces")["rows"]
    return opinions_table([row for row in rows if row["name"].startswith("kathleen")])


def opinions_table(found: list[dict[str, Any]]) -> str:
    """Word error rate and opinion scores in rows of benchmarks/sound.py."""
    rows = [
        [row["name"], percent_interval(row["wer"])] + [interval(row[key]) for key in ("distillmos", "dnsmos")]
        for row in found
    ]
    return table(["", "WER", "DistillMOS", "DNSMOS"], rows)


@made
def sound_bars() -> str:
    return bars_table("sound_bars", "default voice")


@made
def kathleen_bars() -> str:
    return bars_table("kathleen_bars", "voice `kathleen`")


def bars_table(name: str, voice: str) -> str:
    """One row for each measured part of benchmarks/sound_bars.py."""
    found, rows = read(name), []

    def row(what: str, ours: object, theirs: object, vocoder: str) -> None:
        rows.append([what, ours, theirs, vocoder])

    if part := found.get("long"):
        name = f"{part['sentences']} sentences of 100 … 200 phonemes in one piece"
        wers = [percent_interval(part[who]["wer"]) for who in ("voice", "teacher")]
        row(f"{name}: WER", *wers, part["vocoder"])
        row(
            f"{name}: DistillMOS", *(interval(part[who]["distillmos"]) for who in ("voice", "teacher")), part["vocoder"]
        )
    if part := found.get("questions"):
        for what, show in (
            ('final pitch, "?" minus ".", semitones', lambda one: interval(one["semitones"], 1)),
            ("pairs that rise by 2 semitones or more", lambda one: f"{one['at least 2']} of {one['of']}"),
        ):
            row(what, show(part["voice"]), show(part["teacher"]), part["vocoder"])
    if part := found.get("pauses"):
        silences = part["silences of 0.45 s and more"]
        row(f"silences of ≥ 0.45 s in {part['words']} words", silences["voice"], silences["teacher"], "")
        row(
            "punctuation marks with a pause of ≥ 0.1 s",
            f"{part['marks with a pause of 0.1 s']} of {part['marks']}",
            "",
            "",
        )
        inside = f"{part['word boundaries with a pause of 0.1 s']} of {part['word boundaries']}"
        row("word boundaries inside phrases with a pause of ≥ 0.1 s", inside, "", "")
        row("longest pause inside a phrase", f"{1000 * part['longest pause inside a phrase, s']:.0f} ms", "", "")
        row("silent share of pauses inside phrases", f"{part['silent share of blanks between words']:.2f}", "", "")
    if part := found.get("onsets"):
        for pace in ("1", "0.625"):
            late = part[f"pace {pace}"]["sound minus timestamp, ms"]
            shown = f"{late['median']:.0f} / {late['p95']:.0f} ms"
            row(f"first word audible after its timestamp, pace {pace}: median / 95 %", shown, "", part["vocoder"])
        ghosts = part["phantom you"]
        row(
            f'phantom "you" of {ghosts["of"]} (Moonshine with its voice detector)',
            ghosts["voice"],
            ghosts["teacher"],
            part["vocoder"],
        )
    if part := found.get("hard"):
        both = part["voice"], part["teacher"]
        row(
            f"difficult inputs: words without time in the alignment, of {both[0]['words']}",
            both[0]["words without time in the alignment"],
            "",
            part["vocoder"],
        )
        missed = (" / ".join(map(str, one["words missed"])) for one in both)
        row(f"words missed by {' / '.join(part['recognizers'])}", *missed, part["vocoder"])
        heard = (f"{one['missed by both']}; {one['and not heard as phones']}" for one in both)
        row("missed by both; of these, phones not found in their interval", *heard, part["vocoder"])
    for key, how in (("cost", ""), ("cost without torch", ", without torch")):
        if part := found.get(key):
            first = part["first audio, s (median, worst of 10)"]
            row(f"first audio of ten words, warm, one core{how}", f"{first[0]:.2f} s", "", part["vocoder"])
            row(f"text to sound, CPU s per s{how}", f"{part['CPU s per s']:.3f}", "", part["vocoder"])
            memory = f"{part['peak memory, MB']} / {part['peak memory after them, MB']} MB"
            row(f"peak memory, first phrases / after {part['utterances']} utterances{how}", memory, "", part["vocoder"])
    return table(["", voice, "teacher", "vocoder"], rows)


def sound_of(name: str) -> str:
    """Opinion score and word error rate of a row of benchmarks/sound.py."""
    row = next(row for row in read("sound")["rows"] if row["name"] == name)
    mos, wer = row["distillmos"], [100 * value for value in row["wer"]]
    return f"{mos[0]:.2f} [{mos[1]:.2f}, {mos[2]:.2f}] and {wer[0]:.1f} % [{wer[1]:.1f}, {wer[2]:.1f}]"
