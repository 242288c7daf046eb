"""Packages that are installed and cannot be imported."""

from importlib.util import find_spec


def hide_broken_torchaudio() -> None:
    """Let transformers do without torchaudio where it does not import, as beside a CPU build of torch.

    transformers imports torchaudio wherever it is installed (the extra `mos` brings it along), and no model of it can
    be imported if that fails.
    """
    if find_spec("transformers") is None or find_spec("torchaudio") is None:
        return
    try:
        import torchaudio  # noqa: F401
    except OSError:
        from transformers import utils

        utils.is_torchaudio_available = utils.import_utils.is_torchaudio_available = lambda: False
