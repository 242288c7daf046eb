"""From mel frames to a waveform."""
