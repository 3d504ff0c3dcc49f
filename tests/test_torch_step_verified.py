"""What `brimful.torch.Step` calls the same gradients was tried out, or it says that it was not."""

import pytest

torch = pytest.importorskip("torch")
import brimful.torch  # noqa: E402
from brimful.torch import budget  # noqa: E402
from brimful.torch.step import UNVERIFIED  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def four_at_a_time(tmp_path, monkeypatch):
    """The size that the plan would propose."""
    monkeypatch.setenv("BRIMFUL_CACHE", str(tmp_path))
    monkeypatch.setattr(budget, "propose", lambda *_: budget.Proposal(4, 1 << 40))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


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
