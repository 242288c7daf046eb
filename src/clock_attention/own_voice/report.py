"""Report of a created voice: `report.html` with samples to play, and the card `README.md`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clock_attention.evaluation.report.document import (
    AudioSamples,
    Cells,
    Heading,
    Picture,
    ReportPart,
    markdown_table,
    to_html,
)
from clock_attention.files import replacing, write_atomically
from clock_attention.own_voice.fine_tuning import ADVERSARY_SHARE
from clock_attention.speech.training.progress import read_log
from clock_attention.speech.voice.voice_folder import CARD, read_card

if TYPE_CHECKING:
    from clock_attention.own_voice.order import Order

REPORT, README = "report.html", "README.md"
CURVES = {"train_l1": "L1, training", "valid_l1": "L1, held out", "valid_pitch": "pitch", "valid_duration": "duration"}
TEXTS = ("texts", "recorded_texts", "heard")
Findings = dict[str, Any]


def write_card(order: Order, found: Findings) -> None:
    """Write the measures into voice.json, and the voice's card, README.md."""
    measured = found["evaluate"]
    measures = {key: value[0] if isinstance(value, list) else value for key, value in numbers(measured).items()}
    card = read_card(order.out).model_copy(update={"measures": measures})
    write_atomically(order.out / CARD, card.model_dump_json(indent=1))
    provenance, gathered = card.provenance, found["gather"]
    texts = f", texts written by {gathered['transcribed_by']}" if gathered["transcribed_clips"] else ""
    rows = [["", ""], ["speaker's consent", order.consent], ["licence", order.licence]]
    rows += [
        ["recordings", f"{gathered['seconds'] / 60:.1f} minutes in {gathered['clips']} clips{texts}"],
        ["fine-tuned from", f"the voice {provenance.start}"],
        ["training", f"{provenance.steps} steps, {provenance.seconds / 60:.0f} minutes"],
        ["made with", provenance.software],
    ]
    lines = [f"# {order.name}", "", "A person's voice, made with `clock-attention voice create`.", ""]
    lines += [markdown_table(rows), markdown_table(measures_table(measured))]
    lines += ["Use it only as its speaker has agreed to, and tell listeners that the speech is synthetic."]
    write_atomically(order.out / README, "\n".join(lines) + "\n")


def write_voice_report(order: Order, found: Findings, log: Path, samples: Path) -> Path:
    """Write the report of a created voice: `report.html` with samples to play."""
    measured = found["evaluate"]
    spoken = [(text, samples / f"voice_{number}.flac") for number, text in enumerate(measured["texts"])]
    recorded = [(text, samples / f"recording_{number}.flac") for number, text in enumerate(measured["recorded_texts"])]
    parts: list[ReportPart] = [
        Heading(f"The voice {order.name}", 1),
        f"Consent: {order.consent.rstrip('.')}. Licence: {order.licence}.",
    ]
    parts += [note(warning) for warning in found["check"]["warnings"]]
    parts += [Heading("Listen"), AudioSamples("The voice, on sentences that it has never seen:", tuple(spoken))]
    parts += [AudioSamples("The speaker, in recordings that were not learned from:", tuple(recorded))]
    parts += [Heading("Measures"), measures_table(measured), explanation(measured)]
    parts += [Heading("What was used"), used_table(found)]
    rows = left_out(found)
    listed: ReportPart = [["stage", "reason", "clips", "seconds"], *rows] if rows else "Nothing."
    parts += [Heading("What was left out, and why"), listed]
    parts += [
        Heading("Texts that fit their recordings least"),
        worst_table(found),
        "Check these first: does the text match the recording?",
    ]
    picture = samples / "curves.png"
    if draw_curves(log, picture):
        parts += [
            Heading("Learning"),
            Picture(picture, f"Losses over steps; the discriminator joins after {ADVERSARY_SHARE:.0%} of them."),
        ]
    page = order.out / REPORT
    write_atomically(page, to_html(parts, f"The voice {order.name}"))
    return page


def note(warning: str) -> str:
    """A warning as a sentence of a voice's report."""
    return f"Note: {warning}" + ("" if warning.endswith("?") else ".")


def numbers(measured: Findings) -> dict[str, Any]:
    """Numbers of a voice's report: the measures without the texts."""
    return {key: value for key, value in measured.items() if not isinstance(value, str) and key not in TEXTS}


def measures_table(measured: Findings) -> Cells:
    """Table of measures for a voice's report."""
    rows: Cells = [["measure", "this voice", "recordings through the vocoder"]]
    if "wer" in measured:
        low, high = (f"{100 * part:.1f}" for part in measured["wer"][1:])
        rows.append(
            [f"word error rate ({measured['recognizer']})", f"{100 * measured['wer'][0]:.1f} % [{low}, {high}]", ""]
        )
    for name, title in (
        ("distillmos", "DistillMOS"),
        ("dnsmos", "DNSMOS overall"),
        ("similarity", "speaker similarity"),
    ):
        if name in measured:
            rows.append([title, interval(measured[name]), interval(measured[f"{name}_copy"])])
    rows.append(
        ["movement in time / across bins", f"{measured['movement']:.2f} / {measured['bins']:.2f}", "1 / 1 (recordings)"]
    )
    rows.append(["variance", f"{measured['variance']:.2f}", "1 (recordings)"])
    rows.append(["words skipped / repeated", f"{measured['skips']} / {measured['repeats']}", ""])
    return rows


def explanation(measured: Findings) -> str:
    """Note for a voice's report: what the measures mean, and which are missing."""
    missing = [name for name in ("wer", "distillmos", "dnsmos", "similarity") if name not in measured]
    without = f" Not measured, because a package is not installed: {', '.join(missing)}." if missing else ""
    return (
        f"{measured['sentences']} sentences; brackets are 95 % intervals over sentences. Opinion scores are predicted, "
        "from 1 to 5. Speaker similarity is the cosine of speaker embeddings: other people have about 0.5 to "
        f"0.65.{without}"
    )


def interval(values: list[float]) -> str:
    """Format a mean with its interval for a voice's report."""
    mean, low, high = values
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def used_table(found: Findings) -> Cells:
    """Table for a voice's report: how much was recorded and used."""
    gathered, plan = found["gather"], found["plan"]
    low, middle, high = gathered["loudness"] or [0.0, 0.0, 0.0]
    return [
        ["", ""],
        ["recorded", f"{gathered['seconds_found'] / 60:.1f} minutes"],
        [
            "clips",
            f"{gathered['clips']}, {gathered['seconds'] / 60:.1f} minutes; {gathered['cut']} recordings were cut",
        ],
        ["used, without silence at both ends", f"{found['align']['seconds'] / 60:.1f} minutes"],
        ["loudness before (lowest, median, highest)", f"{low:.0f} / {middle:.0f} / {high:.0f} LUFS"],
        ["speech above noise", f"{gathered['above_noise']:.0f} dB"],
        ["without high frequencies, as on a telephone", f"{gathered['narrowband'][1] / 60:.1f} minutes"],
        ["texts by a recognizer", f"{gathered['transcribed_clips']} clips {gathered['transcribed_by']}".strip()],
        ["training", f"{plan['steps']} steps"],
    ]


def left_out(found: Findings) -> Cells:
    """Rows for a voice's report: every reason for leaving out clips, with the number of clips and seconds."""
    rows: Cells = []
    for reason, (count, seconds) in found["gather"]["left_out"].items():
        rows.append(["reading", reason, f"{count:.0f}", f"{seconds:.0f}"])
    rejected = found["prepare"]["left_out"]
    for reason in dict.fromkeys(row[1] for row in rejected):
        lengths = [row[3] for row in rejected if row[1] == reason]
        rows.append(["preparing", reason, str(len(lengths)), f"{sum(lengths):.0f}"])
    removed, seconds = found["prepare"]["removed"]
    if removed > 0:
        rows.append(["preparing", "removed by hand", str(removed), f"{seconds:.0f}"])
    aligned = found["align"]
    if aligned["left_out"]:
        seconds = f"{aligned['seconds_left_out']:.0f}"
        rows.append(["aligning", "the text does not fit", str(len(aligned["left_out"])), seconds])
    return rows


def minutes_used(found: Findings) -> float:
    """Minutes of recordings that the voice learned from or was measured with."""
    prepared = found["prepare"]
    lost = sum(row[3] for row in prepared["left_out"]) + prepared["removed"][1] + found["align"]["seconds_left_out"]
    return float(found["gather"]["seconds"] - lost) / 60


def worst_table(found: Findings) -> Cells:
    """Table for a voice's report: the clips that match their texts worst."""
    rows: Cells = [["clip", "score", "left out", "text"]]
    for name, score, reason, text in found["align"]["worst"]:
        rows.append([name, "" if score is None else f"{score:.2f}", reason, text])
    return rows


def draw_curves(log: Path, path: Path) -> bool:
    """Draw the losses over steps for a voice's report; returns False if nothing was logged."""
    from matplotlib.figure import Figure

    rows = read_log(log)
    if not rows:
        return False
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots()
    for column, title in CURVES.items():
        points = [(int(row["step"]), float(row[column])) for row in rows if row.get(column)]
        if points:
            axes.plot(*zip(*points, strict=True), label=title, marker="." if column.startswith("valid") else "")
    axes.set(xlabel="step", ylabel="loss")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110, format="png")
    return True
