"""Create a voice from a folder of recordings: gather, check, align, fine-tune, export, evaluate, report."""
