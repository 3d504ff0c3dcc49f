"""The jobs that `measure_tensorflow.py` measures: which models, with which batch, optimizer and precision."""

from . import earlier, eighth, eleventh, fifth, ninth, seventh, sixth, tenth, twelfth

JOBS = [*earlier.JOBS, *fifth.JOBS, *sixth.JOBS, *seventh.JOBS, *eighth.JOBS, *ninth.JOBS, *tenth.JOBS, *eleventh.JOBS, *twelfth.JOBS]

# Those whose batches follow from their inputs; their files are archives.
ARCHIVED = {
    **fifth.MODELS,
    **sixth.MODELS,
    **seventh.MODELS,
    **eighth.MODELS,
    **ninth.MODELS,
    **tenth.MODELS,
    **eleventh.MODELS,
    **twelfth.MODELS,
}


def prepare(keras, numpy, name, batch):
    """The model of this name, its loss as a row names it, the loss for `compile`, and a batch."""
    if name in ARCHIVED:
        build, loss = ARCHIVED[name]
        model = build(keras)
        return model, loss, fifth.loss_of(keras, loss), fifth.batch_of(numpy, model, loss, batch)
    build, kind, shape, target = earlier.MODELS[name]
    loss = earlier.LOSSES.get(target.rstrip("0123456789"), "sparse_categorical_crossentropy")
    return build(keras), loss, loss, earlier.batch_of(numpy, kind, shape, target, batch)


def first_job(name):
    """The job whose settings the model's file has, if it is an archive."""
    return next(job for job in JOBS if job[0] == name) if name in ARCHIVED else None
