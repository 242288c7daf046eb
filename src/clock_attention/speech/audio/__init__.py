"""Waveforms, sound files, mel spectrograms, pitch, loudness and figure panels."""
