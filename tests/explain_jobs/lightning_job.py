"""Lightning trains with its progress bar and then has no memory for a batch."""

import lightning
import torch
from limits import allow_more
from torch.utils.data import DataLoader

torch.set_num_threads(1)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))

    def training_step(self, batch, index):
        if index == 2:
            allow_more(30 << 20)
        return self.layers(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


loader = DataLoader(torch.zeros(16384 * 4, 256), batch_size=16384)
lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False).fit(Model(), loader)
