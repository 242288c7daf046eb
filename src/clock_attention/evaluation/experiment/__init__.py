"""The paper's experiment, from corpora to report."""
