"""A batch that `brimful.keras` takes in parts has the gradients, the updates and the logs of the whole.

The reference is Keras's own `fit` on the full batch, with a model that has the same weights. Models, losses, weights, optimizers and
sizes are drawn from seeds (`keras_cases.py`); the size is set by hand in place of the plan's, and nothing else. Keras has one backend in
a process: each has a process of its own, which writes a line for each case.

Most of the time is tracing and compiling, on TensorFlow and JAX: by default all cases run in float64 on PyTorch, some of them on the other two
and in float32, and all of them everywhere with BRIMFUL_ALL_CASES=1.
"""

import collections
import functools
import json
import os
import tempfile
from pathlib import Path

import forked
import pytest

pytest.importorskip("keras")

HERE = Path(__file__).parent
BACKENDS = ("tensorflow", "jax", "torch")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
SEEDS = range(42)
EVERYTHING = bool(os.environ.get("BRIMFUL_ALL_CASES"))


#: Each optimizer, and each kind of model, once.
ONE_OF_EACH = range(35, 42)
#: Further ones whose optimizer leaves the gradient as it is.
GRADIENTS = (7, 14, 15, 21, 28)


def seeds(backend, kind):
    """The cases that run."""
    if EVERYTHING or (backend, kind) == ("torch", "float64"):
        return list(SEEDS)
    if kind == "float32":
        return [*ONE_OF_EACH[::2]]
    return [*GRADIENTS, *ONE_OF_EACH]


FIT = (
    "validation_and_metrics",
    "validation_with_weights_of_its_own",
    "metrics_part_by_part",
    "validation_split",
    "several_outputs",
    "losses_of_ones_own",
    "losses_of_ones_own_with_masks",
    "words_folded_into_the_batch",
    "own_loss_of_several_outputs",
    "only_losses_of_layers",
    "callbacks",
    "shuffled",
    "generator",
    "dataset_of_keras",
    "dataset_of_tensorflow",
    "loader_of_torch",
    "evaluate_and_predict",
    "loop_of_ones_own",
    "larger_parts_are_said_when_they_begin",
    "nothing_is_left",
    "several_steps_at_once",
    "masked_metrics",
    "called_as_keras_calls_it",
    "frozen_by_a_callback",
)
#: What must not be taken in parts, and what is said about it.
FORBIDDEN = {
    "stateful": ("stateful", "keeps a state for each row"),
    "fixed_batch": ("fixed_batch", "does not take another number of samples"),
    "a_number_beside_the_results": ("no_rows", "is not made of rows for each sample"),
    "batch_mean": ("model_couples", "depend on the other samples"),
    "in_batch_contrastive": ("loss_couples", "the loss couples the samples"),
    "scalar_loss_with_weights": ("loss_couples", "the loss couples the samples"),
    "own_loss_with_weights": ("loss_couples", "the loss couples the samples"),
    "root_of_the_mean": ("loss_couples", "the loss couples the samples"),
    "labels_that_are_missing": ("loss_couples", "the loss couples the samples"),
    "noise_and_coupling": ("model_couples", "depend on the other samples"),
    "noise_of_the_frameworks_own": ("noisy", "draws random numbers of the framework's own"),
    "must_not_split": ("loss_couples", "the loss couples the samples"),
}


@functools.cache
def results(backend):
    """What the process of a backend wrote, by name."""
    pytest.importorskip(backend)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "KERAS_BACKEND": backend,
            "BRIMFUL_TEST_FOLDER": folder,
            "CUDA_VISIBLE_DEVICES": "-1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
            # Compiling takes far longer than running.
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
            "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
        }
        names = [f"{kind}-{seed}" for kind in TOLERANCE for seed in seeds(backend, kind)]
        run = forked.run(HERE / "keras_fit_job.py", "gradients,checks", *names, env={**os.environ, **settings}, timeout=1800)
    found = {line["name"]: line for line in map(json.loads, run.stdout.splitlines())}
    assert run.returncode == 0, f"after {len(found)} cases:\n{run.stderr[-3000:]}"
    return found


def result(backend, name):
    found = results(backend)[name]
    assert "error" not in found, found["error"]
    return found


CASES = [(backend, kind, seed) for backend in BACKENDS for kind in TOLERANCE for seed in seeds(backend, kind)]


@pytest.mark.parametrize(("backend", "kind", "seed"), CASES)
def test_random_models_and_splits(backend, kind, seed):
    found = result(backend, f"{kind}-{seed}")
    assert found["parts"] > 1 and found["moved"] > 1e-4, found
    assert found["weights"] <= TOLERANCE[kind], found
    assert found["optimizer"] <= TOLERANCE[kind], found
    assert found["logs"] <= TOLERANCE[kind], found
    assert found["all_logs"] <= TOLERANCE[kind], found
    if kind == "float64":
        # Each weight for itself: a small one that is wrong does not hide behind a large one.
        assert found["by_array"] <= TOLERANCE[kind], found
    assert "same gradients" in found["said"]


def test_the_cases_have_what_they_are_to_show():
    """Each kind of model, loss, weight and optimizer occurs; parts of one row, of all rows but one, and unequal ones."""
    specs = [result("torch", f"float64-{seed}")["spec"] for seed in SEEDS]
    count = collections.Counter()
    for spec in specs:
        count.update([spec["body"], spec["optimizer"], f"weights {spec['weights']}", *spec["extras"]])
        count.update(f"loss {output['loss']}" for output in spec["outputs"])
        count.update(output["reduction"] for output in spec["outputs"])
        count.update(name for name in ("own_loss", "masked", "temporal", "empty_rows", "dictionary", "loss_weights", "eager") if spec[name])
        count.update(["outputs " + str(len(spec["outputs"])), "one row"[: 7 * (spec["size"] == 1)]])
        count.update(["all but one"] * (spec["size"] == spec["rows"] - 1) + ["unequal"] * (spec["rows"] % spec["size"] > 0))
    wanted = (
        "dense conv lstm tokens attention two_inputs gradient clipnorm global_clipnorm clipvalue loss_scale adamw ema own_loss masked "
        "temporal empty_rows dictionary loss_weights eager kernel bias activity mean_layer sum_layer frozen sum_over_batch_size sum "
        "mean_with_sample_weight unequal"
    ).split()
    wanted += [f"weights {name}" for name in ("none", "samples", "each_output", "classes")] + ["outputs 1", "outputs 2", "outputs 3"]
    wanted += ["loss " + name for name in "sparse sparse_ignore smoothed mse huber cosine mean_function sum_function nested".split()]
    missing = [name for name in (*wanted, "one row", "all but one") if not count[name]]
    assert not missing, missing


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_averaging_of_parts_would_fail(backend):
    """What the assertions above are worth: a mean of the parts' gradients, as a plain loop takes it, is far off on the same cases."""
    found = [line for name, line in results(backend).items() if name.startswith("averaged-")]
    assert len(found) >= 5 and not [line for line in found if "error" in line]
    missed = [line for line in found if line["weights"] > 1e-3]
    # Equal parts of a plain mean are right that way, too; unequal ones never are.
    unequal = [line for line in found if line["spec"]["rows"] % line["parts"]]
    assert unequal and not [line for line in unequal if line not in missed]
    assert len(missed) > len(found) / 2, sorted(line["weights"] for line in found)


@pytest.mark.parametrize("name", FIT)
@pytest.mark.parametrize("backend", BACKENDS)
def test_fit_gives_what_keras_gives(backend, name):
    if name == "several_steps_at_once" and backend == "torch":
        pytest.skip("Keras has no steps_per_execution on PyTorch")
    if name == "frozen_by_a_callback" and backend == "jax":
        pytest.skip("Keras on JAX cannot train with other weights than it began with")
    if name == "loader_of_torch":
        pytest.importorskip("torch")
    found = result(backend, name)
    assert found["parts"] > 1, found
    assert found["weights"] <= 1e-5 and found["logs"] <= 1e-5, found


@pytest.mark.parametrize("name", FORBIDDEN)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_couples_samples_is_not_split(backend, name):
    if name == "noise_of_the_frameworks_own" and backend == "jax":
        pytest.skip("JAX has no random numbers but those of a key")
    found = result(backend, name)
    code, sentence = FORBIDDEN[name]
    assert found["parts"] == 1 and found["codes"][-1] == code, found
    assert sentence in found["forbidden"] and "\n" not in found["forbidden"]
    assert "same gradients" not in found["said"], found["said"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_that_a_few_samples_told_nothing_of_is_not_trained_with(backend):
    """Its loss divides by a mask: the batch before it is trained with, as Keras trains with it, and it is not."""
    checked = {**result(backend, "few_samples_are_wrong"), **result(backend, "dice_of_other_targets")}
    for name in ("a_number", "rows", "own", "dice"):
        found = checked[name]
        assert "it divides by something that is not their number" in found["said"] and "\n" not in found["said"], (name, found)
        assert found["parts"] == 3 and found["weights"] <= 1e-5, (name, found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_noise_without_training_does_not_forbid_parts(backend):
    found = result(backend, "autoencoder_with_noise")
    assert found["parts"] == found["predicted"] == 3 and found["codes"] == ["random"], found
    assert "same gradients" not in found["said"] and "sampling draws random numbers" in found["said"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_norm_is_said_and_moves_its_averages_once(backend):
    found = result(backend, "batch_norm")
    assert found["parts"] == 3 and found["codes"] == ["batch_norm"]
    assert "same gradients" not in found["said"] and "BatchNorm (norm) normalises each part by its own statistics" in found["said"]
    ours, keras_own = found["moved"]
    # Three parts with momentum ** (1/3) each leave 0.7 of the 100 it started with; three whole steps would leave 34.3.
    assert abs(ours - keras_own) < 0.5 and abs(ours - 70) < 0.5
    assert found["momentum"] == 0.7


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_is_said_and_leaves_the_random_state_of_one_step(backend):
    found = result(backend, "dropout")
    assert found["parts"] == 3 and found["codes"] == ["random"]
    assert "same gradients" not in found["said"] and "draws random numbers" in found["said"]
    ours, keras_own = found["states"]
    assert ours == keras_own and len(ours) == 2
    drawn = result(backend, "parts_draw_other_numbers")
    assert drawn["distinct"] == drawn["expected"] == 3


@pytest.mark.parametrize("name", ["frozen_batch_norm", "dropout_of_nothing", "nothing_to_say", "batch_written_in_the_input"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_exact_is_called_so(backend, name):
    found = result(backend, name)
    assert found["parts"] == 3 and not found["codes"], found
    assert "same gradients" in found["said"]
    assert found.get("weights", 0.0) <= 1e-5


def test_several_steps_at_once_are_refused_as_keras_does():
    """On PyTorch; to go on would lose all batches but the first."""
    assert "must be 1 with the PyTorch backend" in result("torch", "several_steps_are_refused")["said"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_evaluating_makes_no_state_of_the_optimizer(backend):
    found = result(backend, "no_slots_without_training")
    keras_own, ours = found["made"]
    assert ours == keras_own and found["after"] == 10, found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_models_own_fit_runs_and_trains_in_parts(backend):
    found = result(backend, "methods_of_its_own")
    assert min(found["parts"]) > 1 and found["prepared"] == [1, 1, 1] and found["weights"] <= 1e-6, found
    keras_own, ours, again = (logs[0] for logs in found["logs"])
    assert abs(ours - keras_own) <= 1e-6 * keras_own and again == keras_own, found


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_of_the_users_run_as_often_as_in_keras_and_are_named(backend):
    found = result(backend, "steps_of_its_own")
    for how, name in (("stepping", "train_step"), ("making", "make_train_function")):
        keras_own, ours = found[how]["ran"]
        assert ours == keras_own > 0 and found[how]["weights"] <= 1e-6, found
        assert f"has a {name} of its own, which runs as it is" in found[how]["said"], found


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_metrics_that_layers_update_are_named(backend):
    found = result(backend, "metrics_of_layers")
    assert found["parts"] > 1
    assert "size/total, size/count change whenever the model is called: once for each part" in found["said"], found


@pytest.mark.parametrize("backend", BACKENDS)
def test_metrics_that_the_model_updates_in_its_loss_are_named(backend):
    found = result(backend, "metrics_of_the_model")
    assert found["parts"] > 1 and "losses_seen/total changes whenever the model is called: once for each part" in found["said"], found


@pytest.mark.parametrize("backend", BACKENDS)
def test_metrics_with_one_number_for_a_batch_are_named_where_they_are_counted_part_by_part(backend):
    found = result(backend, "metrics_of_the_batch")
    assert found["parts"] > 1 and len(found["said"]) == 1, found
    assert found["said"][0].startswith(
        "loss_as_metric, dice, scalar_metric, of_columns: the predictions of a batch are too large to be kept"
    ), found


def test_gradients_stay_where_keras_leaves_them():
    found = result("torch", "gradients_stay")
    keras_own, *ours = found["sizes"]
    assert found["parts"][:2] == [1, 1] and found["parts"][2] > 1 and len(keras_own) == 3
    assert all(abs(one - other) <= 1e-5 * other for sizes in ours for one, other in zip(sizes, keras_own, strict=True)), found


@pytest.mark.parametrize("backend", BACKENDS)
def test_warnings_are_keras_own(backend):
    keras_own, ours = result(backend, "warned")["given"]
    assert ours == keras_own and len(ours) == (backend != "jax")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loss_that_says_nothing_is_not_called_coupled(backend):
    found = result(backend, "losses_that_say_nothing")
    assert found["nan"].startswith("the loss of the samples that were tried is nan: how it adds up")
    assert found["zero"].startswith("a loss is zero for the samples that were tried: how it adds up")
