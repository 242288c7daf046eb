"""Vocoders: mel frames to waveform."""
