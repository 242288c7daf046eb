"""Waveforms, mel spectrograms, sound files."""
