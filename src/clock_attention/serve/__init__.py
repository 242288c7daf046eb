"""Speech over the network: an OpenAI-compatible HTTP interface and the Wyoming protocol on one engine."""
