def loss(outputs, batch):
    return outputs.square().mean()
