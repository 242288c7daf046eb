"""The corpora of the speech tests, for commands that read them."""

from tests.speech.conftest import ljspeech_folder, readings, store, store_settings  # noqa: F401
