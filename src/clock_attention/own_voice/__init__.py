"""From a folder of recordings to a voice: gather, check, align, fine-tune, export, evaluate, report."""
