"""Where a training runs."""

import pytest

from clock_attention.speech.training.devices import launched_fabric


def test_one_process_on_the_cpu_in_single_precision():
    fabric = launched_fabric("cpu")
    assert (fabric.device.type, fabric.world_size, fabric._precision.precision) == ("cpu", 1, "32-true")


def test_precision_can_be_chosen():
    assert launched_fabric("cpu", precision="bf16-mixed")._precision.precision == "bf16-mixed"


def test_an_accelerator_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="abacus"):
        launched_fabric("abacus")
