"""Tables of reading texts and of dubbing."""

from __future__ import annotations

from measured.writing import interval, made, percent, percent_interval, read, table


@made
def readings() -> str:
    systems = read("readings")["list"]
    kinds = next(iter(systems.values()))["kinds"]
    rows = [[kind, *("{} / {}".format(*scored["kinds"][kind]) for scored in systems.values())] for kind in kinds]
    rows.append(
        [
            "**all**",
            *(percent_interval(scored["share"]) for scored in systems.values()),
        ]
    )
    return table(["kind", *systems], rows)


@made
def readings_ljspeech() -> str:
    systems = read("readings")["ljspeech"]
    shares = [percent_interval(scored["share"]) for scored in systems.values()]
    return table([f"{next(iter(systems.values()))['total']} lines", *systems], [["read as by the human", *shares]])


@made
def readings_work() -> str:
    measured = read("readings")["work"]
    columns = list(next(iter(measured.values())))
    rows = [[name, *(f"{seconds[column]:.2f}" for column in columns)] for name, seconds in measured.items()]
    return table(["text", *(f"{column} characters, s" for column in columns)], rows)


@made
def dubbing_files() -> str:
    files = read("dub")["slots"]
    head = ["", "cues", "spoken", "faster than 1.6", "empty", "overlapping", "pace: median, fastest"]
    head += ["wrong length / slot / frames", "phonemes without a frame"]
    rows = [
        [
            row["file"],
            row["cues"],
            row["spoken"],
            row["too_fast"],
            row["empty"],
            row["overlapping"],
            f"{row['median_pace']:.2f}, {row['fastest_pace']:.2f}",
            f"{row['wrong_length']} / {row['wrong_slots']} / {row['wrong_frames']}",
            row["phonemes_without_frame"],
        ]
        for row in files
    ]
    return table(head, rows)


@made
def dubbing_errors() -> str:
    found = read("dub")["heard"]
    rows = []
    for name, label in (("readable", "pace up to 1.3"), ("faster", "faster")):
        if name not in found:
            continue
        part = found[name]
        off = part["difference"]
        points_off = interval([100 * off[key] for key in ("estimate", "low", "high")], 1).replace("-", "−")
        rows.append([label, part["cues"], percent(part["slot"], 1), percent(part["natural"], 1), points_off])
    return table(["", "cues", "in the slot", "natural pace", "difference, points"], rows)


@made
def dubbing_long() -> str:
    found = read("dub_long")
    rows: list[list[object]] = []
    for name, run in zip(("until it was killed", "the same command again"), found["runs"], strict=True):
        quarter = [memory for finished, memory in run["memory"] if finished]  # of cues that are spoken
        early, late = (
            sorted(part)[len(part) // 2] for part in (quarter[: len(quarter) // 4], quarter[-len(quarter) // 4 :])
        )
        rows.append([name, f"{early:.0f}", f"{late:.0f}", f"{run['peak']:.0f}", f"{run['largest_process']:.0f}"])
    exact = "exact" if found["samples"] == found["samples_expected"] else "WRONG"
    head = ["MB", "median of the first quarter", "of the last quarter", "peak", "largest process"]
    summary = (
        f"{found['cues']:,} cues, {found['hours']:g} hours, {found['samples']:,} samples ({exact}); "
        f"{found['finished_before_the_kill']:,} cues were finished before the kill, {found['spoken_again']} of these "
        f"were spoken again; {found['summary']['skipped_phonemes']} phonemes without a frame."
    )
    return table(head, rows) + "\n\n" + summary


@made
def dubbing_words() -> str:
    found = read("dub")
    words, timeline = found["words"], found.get("timeline", {})
    rows: list[list[object]] = [
        ["random words with random durations", words["requests"], words["exact"], words["worst_frames"]],
        ["of these, with the total length kept", words["total_asked"], words["total_kept"], "–"],
    ]
    if "words" in timeline:
        rows.append(
            [
                f"words of {timeline['recordings']} recordings, times by the aligner (within one frame)",
                timeline["words"],
                timeline["within_one_frame"],
                timeline["worst_frames"],
            ]
        )
    return table(["", "requested", "exact to the frame", "worst, frames"], rows)


@made
def dubbing_issues() -> str:
    names = ("pace", "sentences", "words", "skips", "repeats", "phonemes", "phonemes_without_frame")
    rows = [[row[name] for name in names] for row in read("dub")["issues"]]
    return table([name.replace("_", " ") for name in names], rows)
