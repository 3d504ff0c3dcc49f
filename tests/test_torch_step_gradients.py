"""A batch that `brimful.torch.Step` takes in parts has the gradients of the whole.

The reference is plain autograd over the full batch, on a copy of the model. Models, losses, batches and sizes are drawn from seeded
generators; the size is the only thing that is set by hand, in place of the plan's.
"""

import copy
import math
import random

import pytest

torch = pytest.importorskip("torch")
import brimful.torch  # noqa: E402
from brimful.fitting import lines  # noqa: E402
from brimful.torch import budget  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path))
    with lines.quiet():
        yield


@pytest.fixture
def stepped(monkeypatch):
    """Trains one step with so many samples at a time, and gives the step and the model."""

    def run(model, loss, batch, size, twin=None, **options):
        room = 1 << 40
        monkeypatch.setattr(budget, "propose", lambda *_: budget.Proposal(size, room))
        twin = copy.deepcopy(model) if twin is None else twin
        step = brimful.torch.Step(twin, loss, torch.optim.SGD(twin.parameters(), lr=0.1), **options)
        value = step(batch)
        assert step.split_steps == 1 and step.size == size
        return step, twin, value

    return run


def difference(model, reference):
    """The largest difference of two gradients, relative to the largest gradient."""
    pairs = list(zip(model.parameters(), reference.parameters()))
    largest = max(float(right.grad.abs().max()) for _, right in pairs if right.grad is not None)
    assert largest > 0
    for left, right in pairs:
        assert (left.grad is None) == (right.grad is None)
    return max(float((left.grad - right.grad).abs().max()) for left, right in pairs if right.grad is not None) / largest


def random_model(rng, features, outputs):
    activations = [nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Softplus]
    layers, width = [], features
    for _ in range(rng.randint(1, 3)):
        following = rng.randint(3, 24)
        layers += [nn.Linear(width, following), rng.choice(activations)()]
        if rng.random() < 0.4:
            layers.append(nn.LayerNorm(following))
        width = following
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def cross_entropy(rng, model, rows, kind):
    classes = model[-1].out_features
    targets = torch.randint(0, classes, (rows,))
    weight = torch.rand(classes) + 0.1 if rng.random() < 0.5 else None
    ignored = rng.choice([-100, 0])
    if ignored == -100 and rng.random() < 0.7:
        targets[torch.rand(rows) < 0.4] = ignored
        targets[rng.randrange(rows)] = 1
    weight = None if weight is None else weight.to(kind)
    return nn.CrossEntropyLoss(weight=weight, ignore_index=ignored, label_smoothing=rng.choice([0.0, 0.1])), targets


def regression(rng, model, rows, kind):
    targets = torch.randn(rows, model[-1].out_features, dtype=kind)
    return rng.choice([nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss(), nn.MSELoss(reduction="sum"), F.mse_loss]), targets


@pytest.mark.parametrize("seed", range(48))
def test_random_models_and_splits(seed, stepped):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kind = rng.choice([torch.float64, torch.float32])
    rows = rng.randint(5, 61)
    model = random_model(rng, 7, rng.randint(2, 9)).to(kind)
    loss, targets = rng.choice([cross_entropy, cross_entropy, regression])(rng, model, rows, kind)
    batch = (torch.randn(rows, 7, dtype=kind), targets)
    _, trained, value = stepped(model, loss, batch, rng.randint(1, rows - 1))
    expected = loss(model(batch[0]), targets)
    expected.backward()
    assert value == pytest.approx(float(expected.detach()), rel=TOLERANCE[kind])
    assert difference(trained, model) <= TOLERANCE[kind]


def test_plain_averaging_of_parts_would_fail():
    """What the assertion above is worth: averaging the parts' mean losses, as a plain loop does, is far off."""
    torch.manual_seed(0)
    model = nn.Linear(5, 3).double()
    x, y = torch.randn(10, 5).double(), torch.randint(0, 3, (10,))
    y[:3] = -100
    averaged = copy.deepcopy(model)
    for begin, end in ((0, 4), (4, 8), (8, 10)):
        (F.cross_entropy(averaged(x[begin:end]), y[begin:end]) / 3).backward()
    F.cross_entropy(model(x), y).backward()
    assert difference(averaged, model) > 1e-2


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
def test_masked_tokens_by_normalize(kind, stepped):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30)).to(kind)
    labels = torch.randint(0, 30, (11, 9))
    labels[torch.rand(11, 9) < 0.6] = -100
    labels[4] = -100  # a sample in which nothing counts
    batch = {"input": torch.randint(0, 30, (11, 9)), "labels": labels}

    def loss(outputs, batch):
        return F.cross_entropy(outputs.flatten(0, 1), batch["labels"].flatten())

    for normalize in (lambda batch: (batch["labels"] != -100).sum(), None):
        step, trained, value = stepped(model, loss, batch, 1 if normalize else 4, normalize=normalize)
        model.zero_grad()
        expected = loss(model(batch["input"]), batch)
        expected.backward()
        assert value == pytest.approx(float(expected.detach()), rel=TOLERANCE[kind])
        assert difference(trained, model) <= TOLERANCE[kind]
        assert step.exact


def test_a_batch_without_anything_to_learn_is_skipped_whole_or_in_parts(stepped):
    model = nn.Linear(4, 3)
    batch = (torch.randn(6, 4), torch.full((6,), -100))
    step, trained, value = stepped(model, nn.CrossEntropyLoss(), batch, 2)
    assert math.isnan(value) and step.skipped == 1
    assert all(torch.equal(left, right) for left, right in zip(trained.parameters(), model.parameters()))
    whole = brimful.torch.Step(trained, nn.CrossEntropyLoss(), torch.optim.SGD(trained.parameters(), lr=0.1))
    assert math.isnan(whole((batch[0][:2], batch[1][:2]))) and whole.skipped == 1 and whole.split_steps == 0
    assert all(torch.equal(left, right) for left, right in zip(trained.parameters(), model.parameters()))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.first, self.second = nn.Linear(6, 10), nn.Linear(10, 3), nn.Linear(10, 1)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        return {"kind": self.first(hidden), "value": self.second(hidden).squeeze(1)}


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_several_outputs_sample_weights_and_a_penalty(kind, size, stepped):
    torch.manual_seed(2)
    model = TwoHeads().to(kind)
    batch = {"x": torch.randn(13, 6, dtype=kind), "kind": torch.randint(0, 3, (13,)), "value": torch.randn(13, dtype=kind)}
    batch["weight"] = torch.rand(13, dtype=kind) + 0.1

    def of(model):
        def loss(outputs, batch):
            each = F.cross_entropy(outputs["kind"], batch["kind"], reduction="none") + 0.3 * (outputs["value"] - batch["value"]) ** 2
            penalty = sum((parameter**2).sum() for parameter in model.parameters())
            return (each * batch["weight"]).sum() / batch["weight"].sum() + 0.01 * penalty

        return loss

    twin = copy.deepcopy(model)
    expected = of(model)(model(batch["x"]), batch)
    expected.backward()
    _, trained, value = stepped(model, of(twin), batch, size, twin=twin, normalize=lambda batch: batch["weight"].sum())
    assert value == pytest.approx(float(expected.detach()), rel=TOLERANCE[kind])
    assert difference(trained, model) <= TOLERANCE[kind]


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("clip", [0.01, lambda parameters: nn.utils.clip_grad_value_(parameters, 0.003)])
def test_clipping_and_scaling_happen_once(kind, clip, stepped):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)).to(kind)
    x, y = torch.randn(10, 5, dtype=kind), torch.randint(0, 4, (10,))
    scalers = [torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=1) for _ in range(2)]
    _, trained, _ = stepped(model, nn.CrossEntropyLoss(), (x, y), 4, clip=clip, scaler=scalers[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scalers[1].scale(F.cross_entropy(model(x), y)).backward()
    scalers[1].unscale_(optimizer)
    if callable(clip):
        clip(model.parameters())
    else:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    scalers[1].step(optimizer)
    scalers[1].update()
    assert difference(trained, model) <= TOLERANCE[kind]
    assert scalers[0].state_dict() == scalers[1].state_dict()
    assert scalers[0].get_scale() == 512.0
    for left, right in zip(trained.parameters(), model.parameters()):
        torch.testing.assert_close(left, right, rtol=TOLERANCE[kind], atol=TOLERANCE[kind])


def test_models_with_their_own_loss_and_masked_labels(stepped):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    model = transformers.GPT2LMHeadModel(config).double()
    ids = torch.randint(0, 40, (9, 12))
    labels = ids.clone()
    labels[torch.rand(9, 12) < 0.5] = -100
    batch = {"input_ids": ids, "labels": labels}
    step, trained, value = stepped(model, None, batch, 2)
    expected = model(**batch).loss
    expected.backward()
    assert "without each row's first" in step._rule.name
    assert value == pytest.approx(float(expected.detach()), rel=1e-5)
    # transformers compute the loss in float32, whatever the weights are.
    assert difference(trained, model) <= 1e-5


def test_accumulate_is_the_same_for_a_loop_of_ones_own():
    torch.manual_seed(5)
    model = nn.Linear(5, 3).double()
    twin = copy.deepcopy(model)
    x, y = torch.randn(11, 5).double(), torch.randint(0, 3, (11,))
    y[:4] = -100

    def count(part):
        return (part[1] != -100).sum()

    value = brimful.torch.accumulate((x, y), 3, lambda part: F.cross_entropy(model(part[0]), part[1]), normalize=count)
    expected = F.cross_entropy(twin(x), y)
    expected.backward()
    assert value == pytest.approx(float(expected.detach()), rel=1e-12)
    assert difference(model, twin) <= 1e-10
    model.zero_grad()
    brimful.torch.accumulate((x, y), 3, lambda part: F.cross_entropy(model(part[0]), part[1], reduction="sum"), reduction="sum")
    twin.zero_grad()
    F.cross_entropy(twin(x), y, reduction="sum").backward()
    assert difference(model, twin) <= 1e-10
