"""What `brimful.torch.Step` says, refuses, and keeps as it was; `split` and `recover` beside it."""

import copy
import subprocess
import sys
from collections import namedtuple

import pytest

torch = pytest.importorskip("torch")
import brimful.torch  # noqa: E402
from brimful.fitting import CannotSplit, DoesNotFit  # noqa: E402
from brimful.torch import budget, norms  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path))


@pytest.fixture
def sized(monkeypatch):
    """Sets the size that the plan would propose."""

    def to(size):
        monkeypatch.setattr(budget, "propose", lambda *_: budget.Proposal(size, 1 << 40))

    return to


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_batch_that_fits_runs_as_a_plain_loop(capfd):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 3))
    twin = copy.deepcopy(model)
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    optimizers = [torch.optim.AdamW(one.parameters()) for one in (model, twin)]
    step = brimful.torch.Step(model, nn.CrossEntropyLoss(), optimizers[0])
    for index in range(3):
        torch.manual_seed(index)
        value = step((x, y))
        torch.manual_seed(index)
        optimizers[1].zero_grad()
        loss = F.cross_entropy(twin(x), y)
        loss.backward()
        optimizers[1].step()
        assert isinstance(value, float) and value == loss.item()
    for left, right in zip(model.state_dict().values(), twin.state_dict().values()):
        assert torch.equal(left, right)
    assert step.exact and step.split_steps == 0
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "asked 32, running 1 × 32, predicted" in said and "same gradients" in said


def test_the_plan_proposes_the_micro_batch(capfd):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 10)).double()
    batch = (torch.randn(4096, 64).double(), torch.randint(0, 10, (4096,)))
    step = brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model), memory="40MiB")
    step(batch)
    assert 100 < step.size < 2048 and step.exact
    assert f"running {-(-4096 // step.size)} × " in capfd.readouterr().err
    assert "1 of them in parts" in step.summary()


def test_batch_norm_is_said_and_its_statistics_keep_their_speed(sized, capfd):
    sized(3)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=0.3), nn.Linear(6, 2)).double()
    twin = copy.deepcopy(model)
    x, y = torch.randn(10, 4).double(), torch.randint(0, 2, (10,))
    step = brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model))
    step((x, y))
    assert not step.exact and step.why == [norms.BATCH_NORM]
    assert capfd.readouterr().err.count("BatchNorm takes its statistics from each part") == 1
    norm = model[1]
    assert norm.momentum == 0.3 and int(norm.num_batches_tracked) == 1
    mean, left = torch.zeros(6).double(), 1.0
    for begin, end in ((0, 3), (3, 6), (6, 8), (8, 10)):
        share = 1 - 0.7 ** ((end - begin) / 10)
        mean = (1 - share) * mean + share * twin[0](x[begin:end]).mean(0)
        left *= 1 - share
    assert left == pytest.approx(0.7)  # as much of the old statistics as after one full batch
    torch.testing.assert_close(norm.running_mean, mean)


@pytest.mark.parametrize("rows", [7, 8])
def test_batch_norm_never_gets_a_single_sample(rows, sized):
    sized(1)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    seen = []
    model[1].register_forward_hook(lambda module, inputs, output: seen.append(len(output)) if model.training else None)
    brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model))((torch.randn(rows, 4), torch.randint(0, 2, (rows,))))
    assert sum(seen) == rows and len(seen) > 1 and min(seen) >= 2


@pytest.mark.parametrize("functional", [False, True])
def test_dropout_is_said(functional, sized):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.dropout = nn.Linear(4, 2), nn.Identity() if functional else nn.Dropout(0.5)

        def forward(self, x):
            hidden = self.dropout(x)
            return self.layer(F.dropout(hidden, 0.5) if functional and self.training else hidden)

    sized(3)
    model = Model()
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    step((torch.randn(8, 4), torch.randn(8, 2)))
    assert step.why == [norms.RANDOM]


def test_an_outer_autocast_stays(sized):
    sized(8)
    model = nn.Linear(4, 2)
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    step = brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step((torch.randn(8, 4), torch.randint(0, 2, (8,))))
    assert seen[-1] == torch.bfloat16


def contrastive(outputs, batch):
    similar = outputs @ outputs.T
    return F.cross_entropy(similar, torch.arange(len(similar)))


def test_a_loss_that_couples_samples_runs_whole_while_it_fits(sized):
    sized(4)
    model = nn.Linear(4, 3)
    step = brimful.torch.Step(model, contrastive, sgd(model))
    step(torch.randn(12, 4))
    assert step.split_steps == 0 and step.steps == 1


def test_a_model_that_couples_samples_is_seen(sized):
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(x - x.mean(0))

    sized(4)
    model = Centred()
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    step((torch.randn(12, 4), torch.randn(12, 2)))
    assert step.split_steps == 0 and "depend on the others" in step._refused


def test_a_function_that_divides_by_a_mask_needs_normalize(sized, monkeypatch, tmp_path):
    sized(3)
    torch.manual_seed(0)
    model = nn.Linear(5, 5).double()
    mask = (torch.rand(9, 5) < torch.linspace(0.2, 0.9, 9)[:, None]).double()
    batch = {"input": torch.randn(9, 5).double(), "mask": mask}

    def loss(outputs, batch):
        return (outputs**2 * batch["mask"]).sum() / batch["mask"].sum()

    unknown = brimful.torch.Step(model, loss, sgd(model))
    unknown(batch)
    assert unknown.split_steps == 0 and "normalize=" in unknown._refused
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path / "other"))  # it has learnt that the whole batch fits
    known = brimful.torch.Step(model, loss, sgd(model), normalize=lambda batch: batch["mask"].sum())
    known(batch)
    assert known.split_steps == 1 and known.exact


def test_a_later_batch_with_masked_labels_changes_the_rule(sized):
    sized(4)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 6), nn.Linear(6, 20)).double()
    twin = copy.deepcopy(model)

    def loss(outputs, batch):
        return F.cross_entropy(outputs.flatten(0, 1), batch["labels"].flatten())

    step = brimful.torch.Step(model, loss, sgd(model))
    plain = sgd(twin)
    for index in range(7):
        labels = torch.randint(0, 20, (10, 8))
        if index >= 5:
            labels[torch.rand(10, 8) < torch.rand(10, 1)] = -100
        batch = {"input": torch.randint(0, 20, (10, 8)), "labels": labels}
        value = step(batch)
        plain.zero_grad()
        expected = loss(twin(batch["input"]), batch)
        expected.backward()
        plain.step()
        assert value == pytest.approx(expected.item(), rel=1e-9)


def test_the_scheduler_steps_once_for_each_batch(sized):
    sized(2)
    model = nn.Linear(3, 2)
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    step = brimful.torch.Step(model, nn.MSELoss(), optimizer, scheduler=scheduler)
    for _ in range(3):
        step((torch.randn(7, 3), torch.randn(7, 2)))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 / 8)


def test_mixed_precision_runs_in_parts(sized):
    sized(4)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    seen = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    step = brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model), precision="mixed_bfloat16")
    step((torch.randn(9, 8), torch.randint(0, 3, (9,))))
    assert seen[-3:] == [torch.bfloat16] * 3 and step.split_steps == 1


def test_a_compiled_model_is_called_as_the_model_itself(sized):
    sized(4)
    model = torch.compile(nn.Sequential(nn.Linear(5, 3)), backend="eager")
    step = brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model))
    step((torch.randn(8, 5), torch.randint(0, 3, (8,))))
    assert step.split_steps == 1 and step.exact


def test_what_was_learnt_starts_the_next_run(sized):
    batch = (torch.randn(9, 8), torch.randint(0, 3, (9,)))

    def size_after(proposed):
        sized(proposed)
        model = nn.Linear(8, 3)
        step = brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model), memory="1MiB")
        step(batch)
        return step.size

    assert size_after(4) == 4
    # The largest part that went well was of three samples.
    assert size_after(2) == 3


LIMITED = """
import resource, sys, torch, brimful.torch
from pathlib import Path
from brimful.torch import budget
from torch import nn
torch.set_num_threads(1)
what = sys.argv[1]
model = nn.Sequential(nn.Linear(64, 60000), nn.ReLU(), nn.Linear(60000, 4))
before = [p.clone() for p in model.parameters()]
budget.propose = lambda *_: budget.Proposal(10**9, 1 << 40)
def coupled(outputs, batch):
    return outputs.std(0).sum()
step = brimful.torch.Step(model, coupled if what == "coupled" else nn.MSELoss(), torch.optim.Adam(model.parameters()))
batch = (torch.randn(512, 64), torch.randn(512, 4))
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
room = {"coupled": 200, "nothing": 8}[what] << 20
resource.setrlimit(resource.RLIMIT_AS, (size + room, size + room))
try:
    step(batch[0] if what == "coupled" else batch)
except Exception as error:
    print(type(error).__name__, error)
    same = all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    print("same", same and not step.optimizer.state and all(p.grad is None for p in model.parameters()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")
@pytest.mark.parametrize("what, kind", [("coupled", CannotSplit), ("nothing", DoesNotFit)])
def test_what_cannot_be_helped_is_said_and_nothing_has_changed(what, kind):
    run = subprocess.run([sys.executable, "-c", LIMITED, what], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.startswith(kind.__name__), run.stdout + run.stderr[-2000:]
    assert run.stdout.splitlines()[-1] == "same True"


def refuse_data_parallel(model):
    return nn.DataParallel(model), sgd(model), None


def refuse_two_devices(model):
    model.other = nn.Linear(2, 2, device="meta")
    return model, sgd(model), None


def refuse_lbfgs(model):
    return model, torch.optim.LBFGS(model.parameters()), None


def refuse_plateau(model):
    optimizer = sgd(model)
    return model, optimizer, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)


@pytest.mark.parametrize(
    "make, words",
    [
        (refuse_data_parallel, "one process and one device"),
        (refuse_two_devices, "meta device"),
        (refuse_lbfgs, "LBFGS calls the model several times"),
        (refuse_plateau, "ReduceLROnPlateau"),
    ],
)
def test_refusals(make, words):
    model, optimizer, scheduler = make(nn.Linear(3, 2))
    with pytest.raises(ValueError, match=words):
        brimful.torch.Step(model, nn.MSELoss(), optimizer, scheduler=scheduler)


def test_several_ranks_are_refused(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    model = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="2 ranks: Step works with one process and one device today"):
        brimful.torch.Step(model, nn.MSELoss(), sgd(model))


def test_a_missing_loss_is_said():
    model = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="no loss was given"):
        brimful.torch.Step(model, None, sgd(model))(torch.randn(4, 3))


def test_split_covers_nested_batches_once():
    Pair = namedtuple("Pair", "x y")
    batch = {"pair": Pair(torch.arange(7), [torch.arange(14).view(7, 2)]), "scale": torch.tensor(2.0), "table": torch.ones(3), "name": "a"}
    pieces = list(brimful.torch.split(batch, 3))
    assert [len(piece["pair"].x) for piece in pieces] == [3, 2, 2]
    assert torch.equal(torch.cat([piece["pair"].x for piece in pieces]), batch["pair"].x)
    assert torch.equal(torch.cat([piece["pair"].y[0] for piece in pieces]), batch["pair"].y[0])
    assert all(piece["table"].shape == (3,) and piece["name"] == "a" and isinstance(piece["pair"], Pair) for piece in pieces)
    with pytest.raises(ValueError, match="1 or more"):
        next(brimful.torch.split(batch, 0))


def test_recover_puts_everything_back():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def train(fail):
        optimizer.zero_grad()
        model(torch.ones(8, 4) + torch.rand(8, 4)).sum().backward()
        optimizer.step()
        scheduler.step()
        if fail:
            torch.empty(1 << 60, dtype=torch.uint8)  # the allocator's own error

    def state():
        return [*model.state_dict().values(), torch.get_rng_state()], optimizer.state_dict(), scheduler.state_dict()

    train(False)
    before = copy.deepcopy(state())
    with brimful.torch.recover(model, optimizer, scheduler=scheduler) as attempt:
        train(True)
    assert attempt.succeeded is False and "allocate" in attempt.error
    after = state()
    assert all(torch.equal(left, right) for left, right in zip(before[0], after[0]))
    assert before[2] == after[2] and before[1]["param_groups"] == after[1]["param_groups"]
    for key, kept in before[1]["state"].items():
        assert all(torch.equal(value, after[1]["state"][key][name]) for name, value in kept.items())
    with brimful.torch.recover(model, optimizer, scheduler=scheduler) as attempt:
        train(False)
    assert attempt.succeeded and not torch.equal(before[0][0], state()[0][0])
    with pytest.raises(KeyError), brimful.torch.recover(model, optimizer):
        raise KeyError("another error passes")


def test_lists_and_arrays_with_an_entry_for_each_sample_are_cut():
    x, boxes = torch.arange(20).reshape(5, 4), [torch.ones(1, 4) * index for index in range(5)]
    batch = {
        "x": x,
        "names": list("abcde"),
        "ids": tuple(range(5)),
        "weights": x.numpy()[:, 0],
        "boxes": boxes,
        "size": (224, 224),
        "of": "all",
    }
    parts = list(brimful.torch.split(batch, 3))
    assert [part["names"] for part in parts] == [["a", "b", "c"], ["d", "e"]] and [part["ids"] for part in parts] == [(0, 1, 2), (3, 4)]
    assert [part["weights"].tolist() for part in parts] == [[0, 4, 8], [12, 16]]
    assert [[float(box.mean()) for box in part["boxes"]] for part in parts] == [[0, 1, 2], [3, 4]]
    assert all(part["size"] == (224, 224) and part["of"] == "all" for part in parts)
    # As long as there are samples, and something inside that is cut itself.
    pair = (torch.zeros(2, 3), torch.ones(2))
    assert [[tuple(half.shape) for half in part] for part in brimful.torch.split(pair, 1)] == [[(1, 3), (1,)]] * 2


@pytest.mark.parametrize("kind", ["names", "boxes"])
def test_what_a_loss_takes_by_sample_is_that_of_the_part(kind, sized):
    """Alike in the samples that are tried, and in one later sample not: with a whole list, a part would be given the first entries."""
    torch.manual_seed(0)
    sized(4)

    def entry(index):
        return str(index == 11) if kind == "names" else torch.full((1 + (index == 11), 2), float(index == 11))

    def loss(outputs, batch):
        factors = [1.0 + 9.0 * (float(value.mean()) if kind == "boxes" else value == "True") for value in batch["entries"]]
        return torch.stack([factor * row.square().mean() for factor, row in zip(factors, outputs)]).mean()

    model = nn.Linear(4, 2)
    twin = copy.deepcopy(model)
    batch = {"input": torch.randn(12, 4), "entries": [entry(index) for index in range(12)]}
    step = brimful.torch.Step(model, loss, sgd(model))
    value, whole = step(batch), loss(twin(batch["input"]), batch)
    whole.backward()
    assert step.split_steps == 1 and step.exact and value == pytest.approx(whole.item(), rel=1e-5)
    for mine, expected in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(mine.detach(), expected.detach() - 0.1 * expected.grad)
