"""`brimful.torch.Step` calls nothing exact that is not or was not tried out, refuses nothing that may be split, and keeps no copy past its step."""

import collections
import copy
import random

import pytest

torch = pytest.importorskip("torch")
import brimful.torch  # noqa: E402
from brimful.fitting import CannotSplit  # noqa: E402
from brimful.torch import budget, doubts, norms, probe, weigh  # noqa: E402
from brimful.torch.step import UNVERIFIED  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def four_at_a_time(tmp_path, monkeypatch):
    """The size that the plan would propose."""
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path))
    monkeypatch.setattr(budget, "propose", lambda *_: budget.Proposal(4, 1 << 40))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


class Made(nn.Module):
    """A layer, and something that is done to its inputs."""

    def __init__(self, before):
        super().__init__()
        self.layer, self.before = nn.Linear(4, 2), before
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        return self.layer(self.before(self, x))


def counted(model, x):
    model.calls += model.training
    return x


def spectral(wrap):
    layer = nn.Linear(4, 6)
    # Singular values close to each other: the vectors that are looked for change with every pass. Those of any other weights may have
    # been found by the time of the step, to the last bit, and then nothing changes.
    with torch.no_grad():
        outer, inner = torch.linalg.qr(torch.randn(6, 4)).Q, torch.linalg.qr(torch.randn(4, 4)).Q
        layer.weight.copy_(outer @ torch.tensor([1.0, 0.95, 0.9, 0.85]).diag() @ inner)
    return nn.Sequential(wrap(layer), nn.Linear(6, 2))


@pytest.mark.parametrize(
    "model, name",
    [
        (spectral(nn.utils.spectral_norm), "0.weight_u"),
        (spectral(nn.utils.parametrizations.spectral_norm), "0.parametrizations.weight.0._u"),
        (Made(counted), "calls"),
    ],
)
def test_state_that_a_forward_pass_changes_is_named(model, name, capfd):
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    step((torch.randn(8, 4), torch.randn(8, 2)))
    assert step.split_steps == 1 and not step.exact and len(step.why) == 1 and f"changes {name}" in step.why[0]
    said = capfd.readouterr().err
    assert said.count("changes " + name) == 1 and "running 2 × 4" in said and "same gradients" not in said + step.summary()


def test_a_buffer_that_stays_keeps_nothing_from_being_the_same(capfd):
    model = Made(lambda model, x: x)
    model.calls.fill_(torch.nan)  # equals itself here
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    step((torch.randn(8, 4), torch.randn(8, 2)))
    assert step.exact and capfd.readouterr().err.count("same gradients") == 1


@pytest.mark.parametrize("momentum", [0.3, 1.0, None])
def test_statistics_of_instance_norm_are_those_of_the_full_batch(momentum):
    torch.manual_seed(0)
    model, twin = (nn.Sequential(nn.InstanceNorm1d(3, momentum=momentum, track_running_stats=True)).double() for _ in range(2))
    model.append(nn.Linear(5, 1).double())
    x = torch.randn(10, 3, 5).double() * torch.arange(1, 11).view(-1, 1, 1)
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    step((x, torch.randn(10, 3, 1).double()))
    twin(x)
    assert step.split_steps == 1 and step.exact and model[0].momentum == momentum
    for left, right in zip(model[0].buffers(), twin[0].buffers()):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("source", ["random", "numpy"])
def test_random_numbers_of_others_are_seen(source):
    draw = random.random if source == "random" else pytest.importorskip("numpy").random.rand
    model = Made(lambda model, x: x * (1.0 + draw()) if model.training else x)
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    step((torch.randn(8, 4), torch.randn(8, 2)))
    assert step.why == [norms.RANDOM]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_update_is_undone_and_forgotten(error):
    class Fragile(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            if armed.pop("interrupt", False):
                raise error

    def before(model, x):
        if model.training and armed.pop("out of memory", False):
            torch.empty(1 << 60, dtype=torch.uint8)
        return x

    armed = {}
    model = Made(before)
    step = brimful.torch.Step(model, nn.MSELoss(), Fragile(model.parameters(), lr=0.1))
    batch = (torch.randn(8, 4), torch.randn(8, 2))
    old = [parameter.detach().clone() for parameter in model.parameters()]
    armed["interrupt"] = True
    with pytest.raises(error):
        step(batch)
    assert all(torch.equal(a, b) for a, b in zip(old, model.parameters()))
    other = nn.Linear(4, 2)
    model.layer.load_state_dict(other.state_dict())
    armed["out of memory"] = True
    step(batch)
    assert step.failures == 1
    nn.functional.mse_loss(other(batch[0]), batch[1]).backward()
    for mine, expected in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(mine.detach(), expected.detach() - 0.1 * expected.grad)


def rmse(outputs, batch):
    return (outputs - batch[1]).square().mean().sqrt()


def test_a_root_of_a_mean_is_not_a_sum_of_parts():
    torch.manual_seed(0)
    model = nn.Linear(4, 5000)
    batch = (torch.randn(8, 4), torch.randn(8, 5000))
    with torch.no_grad():
        parts = [rmse(model(batch[0][rows]), [None, batch[1][rows]]) for rows in (slice(0, 2), slice(2, 8), slice(0, 8))]
    assert float(parts[0] * 0.25 + parts[1] * 0.75) == pytest.approx(float(parts[2]), rel=2e-4)  # the values do not tell
    step = brimful.torch.Step(model, rmse, sgd(model))
    step(batch)
    assert step.split_steps == 0 and step.exact


def test_a_model_with_its_own_loss_is_compared_by_values_and_that_is_said(capfd):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x, y):
            return {"loss": nn.functional.mse_loss(self.layer(x), y)}

    model = Own()
    step = brimful.torch.Step(model, None, sgd(model))
    step({"x": torch.randn(8, 4), "y": torch.randn(8, 2)})
    assert step.split_steps == 1 and capfd.readouterr().err.count(probe.VALUES_ONLY) == 1


def test_a_model_for_one_number_of_samples_runs_whole_until_a_split_is_needed():
    def before(model, x):
        if model.training and hungry:
            torch.empty(1 << 60, dtype=torch.uint8)
        return x.reshape(8, -1)[:, :4]

    hungry = []
    model = Made(before)
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    batch = (torch.randn(8, 4), torch.randn(8, 2))
    step(batch)
    assert step.split_steps == 0 and step.exact
    hungry.append(True)
    with pytest.raises(CannotSplit, match="does not take another number of samples"):
        step(batch)


def test_noise_in_evaluation_mode_is_told_from_coupling():
    noise = Made(lambda model, x: x + torch.randn_like(x))
    batch = (torch.randn(8, 4), torch.randn(8, 2))
    step = brimful.torch.Step(noise, nn.MSELoss(), sgd(noise))
    step(batch)
    assert step.split_steps == 1 and set(step.why) == {probe.NOISY, norms.RANDOM}
    coupling = brimful.torch.Step(noise, rmse, sgd(noise))
    coupling(batch)
    assert coupling.split_steps == 0


class Greedy(nn.Module):
    """In evaluation mode it asks the allocator for more than there is, for more than so many samples."""

    def __init__(self, most):
        super().__init__()
        self.layer, self.most, self.tried = nn.Linear(4, 2), most, []

    def forward(self, x):
        if not self.training:
            self.tried.append(len(x))
            if len(x) > self.most:
                torch.empty(1 << 60, dtype=torch.uint8)
        return self.layer(x)


def test_without_room_for_six_samples_fewer_are_tried(capfd):
    model = Greedy(3)
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    step((torch.randn(8, 4), torch.randn(8, 2)))
    assert model.tried == [6, 3, 2, 1] and step.exact
    assert "same gradients" in capfd.readouterr().err


def test_what_could_not_be_tried_is_not_called_the_same(capfd):
    model = Greedy(1)
    step = brimful.torch.Step(model, nn.MSELoss(), sgd(model))
    batch = (torch.randn(8, 4), torch.randn(8, 2))
    step(batch)
    assert model.tried == [6, 3, 2] and not step.exact and step.why == [UNVERIFIED]
    said = capfd.readouterr().err
    assert "gradients not verified\n" in said and said.count(UNVERIFIED) == 1
    assert "same gradients" not in said + step.summary() and "gradients not verified" in step.summary()
    model.most = 6
    step(batch)
    assert step.exact and "same gradients" in step.summary()


@pytest.mark.parametrize("where", ["around", "inside", "needed"])
def test_autocast_does_not_hide_that_parts_add_up(where):
    """Weights in float32 and results in bfloat16: what is a matter of rounding there is no other loss. A model may need it, too."""
    torch.manual_seed(0)

    class Inside(Made):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(x)

    model = (Inside if where == "inside" else Made)(lambda _, x: x)
    step = brimful.torch.Step(model, nn.CrossEntropyLoss(), sgd(model))
    x = torch.randn(16, 4, dtype=torch.bfloat16 if where == "needed" else torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=where != "inside"):
        step((x, torch.randint(0, 2, (16,))))
    assert step.split_steps == 1 and step.exact


def test_autocast_does_not_make_a_root_a_sum():
    """Three digits would not show it: six samples are tried with all there are."""
    torch.manual_seed(0)
    model = Made(lambda _, x: x)
    step = brimful.torch.Step(model, lambda outputs, batch: (outputs - batch[1]).pow(2).mean().sqrt(), sgd(model))
    with torch.autocast("cpu", torch.bfloat16):
        step((torch.randn(16, 4), 100 + torch.randn(16, 2)))
    assert step.split_steps == 0


@pytest.mark.parametrize("frozen", [False, True])
def test_parts_of_a_mapping_are_of_its_kind(frozen):
    """A loss may read attributes of a batch, as those of tokenizers have them. One that lets nothing be written goes on as a dict."""

    class Batch(collections.UserDict):
        def __getattr__(self, name):
            return self.__dict__["data"][name]

        def __setitem__(self, name, value):
            assert not frozen or name not in self.data
            super().__setitem__(name, value)

    model = Made(lambda _, x: x)
    batch = Batch(x=torch.randn(16, 4), y=torch.randn(16, 2))
    loss = (
        (lambda outputs, batch: (outputs - batch["y"]).pow(2).mean())
        if frozen
        else (lambda outputs, batch: (outputs - batch.y).pow(2).mean())
    )
    step = brimful.torch.Step(model, loss, sgd(model))
    step(batch)
    assert step.split_steps == 1 and batch["y"].shape == (16, 2)
    assert {type(part) for part in brimful.torch.split(batch, 4)} == {dict if frozen else Batch}


def test_accumulate_says_that_a_batch_is_empty():
    with pytest.raises(ValueError, match="the batch has no samples"):
        brimful.torch.accumulate(torch.zeros(0, 4), 4, torch.sum)


def normalized(gradient):
    return gradient / gradient.norm()


@pytest.mark.parametrize("where", ["parameter", "module", "before a module"])
def test_hooks_on_gradients_are_not_called_exact(where, capfd):
    """They are given the gradients of each part: nobody knows what they make of them. A whole batch is the whole batch's."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    if where == "parameter":
        model[0].weight.register_hook(normalized)
    elif where == "module":
        model[1].register_full_backward_hook(lambda module, given, out: (normalized(given[0]),))
    else:
        model[1].register_full_backward_pre_hook(lambda module, out: (normalized(out[0]),))
    whole, step = (brimful.torch.Step(model, nn.MSELoss(), sgd(model)) for _ in range(2))
    whole((torch.randn(4, 4), torch.randn(4, 2)))
    assert whole.exact
    step((torch.randn(12, 4), torch.randn(12, 2)))
    assert step.split_steps and not step.exact and any(reason.startswith("hooks on gradients (") for reason in step.why)
    assert "are given those of each part" in capfd.readouterr().err


def test_an_optimizer_within_backward_is_refused():
    """It steps before the batch is done: what it did cannot be put back."""
    model = nn.Linear(4, 2)
    model.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    with pytest.raises(ValueError, match="weight has a hook that runs as soon as its gradient is there .* remove the hook"):
        brimful.torch.Step(model, nn.MSELoss(), sgd(model))


def test_a_batch_that_cannot_be_split_is_said_to_be_tried_as_a_whole(capfd):
    model = nn.Linear(4, 2)
    step = brimful.torch.Step(model, lambda out, batch: ((out - batch[1]) ** 2).mean() ** 0.5, sgd(model))
    step((torch.randn(12, 4), torch.randn(12, 2)))
    assert step.split_steps == 0
    assert "the batch is tried as a whole: the loss of the batch is not the weighted sum" in capfd.readouterr().err


def masked(outputs, batch):
    """A mean over the targets that are there: -1 is none."""
    there = (batch[1] != -1.0).to(outputs.dtype)
    return ((outputs - batch[1]) ** 2 * there).sum() / there.sum()


def with_one_missing():
    """Its sample has neither the least nor the most of anything, and is not among the first: it is none of the few."""
    x, y = torch.randn(36, 4), torch.randn(36, 1)
    x[0], x[1], y[0], y[1] = -9.0, 9.0, -9.0, 9.0
    y[-2] = -1.0
    return x, y


def test_what_the_few_samples_could_not_show_is_seen_in_the_batch(capfd):
    """The first batch is taken as a whole then, as a plain loop takes it, and is called what it is."""
    torch.manual_seed(1)
    model, batch = nn.Linear(4, 1), with_one_missing()
    twin = copy.deepcopy(model)
    step = brimful.torch.Step(model, masked, sgd(model))
    value = step(batch)
    optimizer = sgd(twin)
    loss = masked(twin(batch[0]), batch)
    loss.backward()
    optimizer.step()
    assert step.split_steps == 0 and value == loss.item()
    assert all(torch.equal(left, right) for left, right in zip(model.parameters(), twin.parameters()))
    assert "step 1: the batch is tried as a whole: the loss of the batch is not the weighted sum" in capfd.readouterr().err


def test_a_later_batch_that_does_not_add_up_is_not_trained_with():
    """At the sixth split nothing is tried on a few samples: the fourth and the eighth are."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
    step = brimful.torch.Step(model, masked, sgd(model))
    for _ in range(5):
        step((torch.randn(12, 4), torch.randn(12, 1)))
    before, random_before = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    with pytest.raises(CannotSplit, match="the batch of 36 cannot be taken in parts, and was not trained with: the loss of the batch"):
        torch.manual_seed(1)
        batch = with_one_missing()
        random_before = torch.get_rng_state()
        step(batch)
    assert step.steps == step.split_steps == 5
    assert all(torch.equal(left, right) for left, right in zip(model.state_dict().values(), before.values()))
    assert all(parameter.grad is None for parameter in model.parameters()) and torch.equal(random_before, torch.get_rng_state())


def test_a_loss_that_draws_or_keeps_something_is_not_refused():
    """Asked again it gives another number: that says nothing, and leaves nothing behind."""

    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, outputs, targets):
            self.calls += self.training
            return ((outputs - targets) ** 2).mean() * (1 + 0.1 * self.calls)

    def noisy(outputs, batch):
        return ((outputs - batch[1] + 0.1 * torch.randn_like(outputs)) ** 2).mean()

    model = nn.Linear(4, 2)
    step = brimful.torch.Step(model, noisy, sgd(model))
    step((torch.randn(12, 4), torch.randn(12, 2)))
    assert step.split_steps == 1 and not step.exact
    kept = doubts.Outputs(12)
    for _ in range(3):
        kept.add(torch.ones(4, 2), 4)
    loss = Kept()
    assert kept.adds_up(model, loss, weigh.SAMPLES, (torch.randn(12, 4), torch.randn(12, 2)), 1.0, lambda part: part)
    assert loss.calls == 0


def test_sizes_may_be_numpys_whole_numbers():
    numpy = pytest.importorskip("numpy")
    assert [len(part) for part in brimful.torch.split(torch.zeros(7), numpy.int64(3))] == [3, 2, 2]
    for wrong in (0, True, 2.0, "3"):
        with pytest.raises(ValueError, match="write a number of samples"):
            list(brimful.torch.split(torch.zeros(7), wrong))


class Centred(nn.Module):
    """A loss around a centre, which it moves at each call as far as it is told."""

    def __init__(self, assigns=False, always=False):
        super().__init__()
        self.register_buffer("centre", torch.zeros(2))
        self.assigns, self.always = assigns, always

    def forward(self, outputs, targets):
        loss = nn.functional.mse_loss(outputs - self.centre, targets)
        if self.training or self.always:
            with torch.no_grad():
                moved = 0.5 * self.centre + 0.5 * outputs.mean(0)
                if self.assigns:
                    self.centre = moved
                else:
                    self.centre.copy_(moved)
        return loss


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("assigns", [False, True])
@pytest.mark.parametrize("reached", ["module", "function", "default"])
def test_state_that_a_loss_keeps_is_named_and_what_is_tried_leaves_no_trace_in_it(reached, assigns, always, capfd):
    def before(model, x):
        seen.extend([loss.centre.clone()] if model.training else [])
        if model.training and len(seen) == 2:
            torch.empty(1 << 60, dtype=torch.uint8)
        return x

    seen, loss, model = [], Centred(assigns, always), Made(before)
    given = {
        "module": loss,
        "function": lambda outputs, batch: loss(outputs, batch[1]),
        "default": lambda outputs, batch, measure=loss: measure(outputs, batch[1]),
    }[reached]
    step = brimful.torch.Step(model, given, sgd(model))
    step((torch.randn(8, 4), torch.randn(8, 2)))
    assert step.failures == 1 and loss.training and not loss._forward_hooks
    # Neither by the six samples, nor by the first part of the attempt that failed.
    assert torch.equal(seen[0], torch.zeros(2)) and torch.equal(seen[2], torch.zeros(2)) and not torch.equal(seen[3], seen[2])
    assert step.split_steps == 1 and step.why == [norms.changes(["Centred.centre"])]
    assert "same gradients" not in capfd.readouterr().err


def test_statistics_of_a_network_inside_of_the_loss_are_said():
    teacher, model = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)), Made(lambda model, x: x)
    for training in (True, False):
        teacher.train(training)
        step = brimful.torch.Step(model, lambda outputs, batch: nn.functional.mse_loss(outputs, teacher(batch).detach()), sgd(model))
        step(torch.randn(8, 4))
        assert step.split_steps == 1 and step.why == ([norms.BATCH_NORM] if training else [])
