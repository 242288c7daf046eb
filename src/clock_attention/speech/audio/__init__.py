"""Waveforms, sound files, mel spectrograms, pitch, loudness, panels of figures."""
