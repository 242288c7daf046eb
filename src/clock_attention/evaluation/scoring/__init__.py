"""What is measured of one utterance: errors of recognizers, alignment faults, predicted opinion."""
