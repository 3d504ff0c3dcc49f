"""What losses and metrics of wide outputs take is what TensorFlow's allocator hands out."""

import json
import subprocess
import sys

import pytest
from framework import MIB, run_script

#: Kernels run in parallel, so peaks differ from step to step and start to start: the largest of so many counts.
STEPS, STARTS, SHARE = 16, 3, 0.20

CE, BCE = "'categorical_crossentropy'", "'binary_crossentropy'"
JOBS = {
    "accuracy": ("softmax", CE, "['accuracy']"),
    "auc": ("softmax", CE, "['AUC']"),
    "f1": ("softmax", CE, "[keras.metrics.F1Score()]"),
    "errors": ("linear", "'mse'", "['mae', 'mse', 'RootMeanSquaredError', 'R2Score']"),
    "correlation": ("linear", "'mse'", "[keras.metrics.PearsonCorrelation()]"),
    "precision and recall": ("sigmoid", BCE, "['Precision', 'Recall']"),
    "thresholds": ("sigmoid", BCE, "[keras.metrics.Precision(thresholds=[0.3, 0.7])]"),
    "marked": ("sigmoid", BCE, "[keras.metrics.BinaryIoU()]"),
    "focal": ("softmax", "'categorical_focal_crossentropy'", "None"),
    "binary focal": ("sigmoid", "'binary_focal_crossentropy'", "None"),
    "divergence": ("softmax", "'kl_divergence'", "None"),
    "cosine": ("linear", "'cosine_similarity'", "None"),
    "logarithmic": ("linear", "'msle'", "None"),
    "dice": ("pixels", "'dice'", "None"),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_peak_is_that_of_real_steps(name, tmp_path):
    """Before they were counted, the plans of these jobs were up to three quarters too low."""
    last, loss, metrics = JOBS[name]
    job, file = {"last": last, "loss": loss, "metrics": metrics, "steps": STEPS}, tmp_path / "model.keras"
    peaks, near, predicted = [], False, 0
    while not near and len(peaks) < STARTS:
        done = run_script("metrics_job.py", json.dumps(job), str(file))
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        peaks.append(max(found["peaks"]))
        asked = ["--batch", str(found["batch"]), "--device", "cpu", "--format", "json"]
        plan = subprocess.run([sys.executable, "-m", "brimful", "plan", str(file), *asked], capture_output=True, text=True)
        report = json.loads(plan.stdout)
        assert not [note for note in report["model"].get("notes", []) if "loss" in note["code"] or "metric" in note["code"]]
        predicted = report["peak"]["allocated_bytes"]
        near = abs(predicted - max(peaks)) <= SHARE * max(peaks)
    figures = f"{name}: predicted {predicted / MIB:.1f} MiB, measured {[round(peak / MIB, 1) for peak in peaks]}"
    print(figures)
    assert near, figures
