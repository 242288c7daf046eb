"""The paper's experiment from nothing to a report."""
