"""The web page for speaking text and dubbing subtitles."""
