"""The models that Keras's own answers describe, by name, in the order in which their modules are imported."""

MODELS = {}


def fixture(make):
    """Registers a function that makes a model."""
    MODELS[make.__name__] = make
    return make
