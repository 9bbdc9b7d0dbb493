"""A client of tinygrad's CUDA device whose kernels run: NVRTC compiles them to PTX. A small network learns, by steps of stochastic gradient
descent, in which quarter of a square points lie. Each test prints its name, and the bytes of what came out of it or that it is wrong."""

import numpy
from tinygrad import Device, Tensor, nn
from tinygrad.helpers import Context

POINTS, HIDDEN, BATCH, STEPS = 64, 16, 16, 32
SEED = 2024


def points():
    """Points of the square around zero, and in which quarter each is."""
    where = numpy.random.RandomState(SEED).uniform(-1, 1, (POINTS, 2)).astype(numpy.float32)
    return where, ((where[:, 0] > 0) * 2 + (where[:, 1] > 0)).astype(numpy.int32)


def weights():
    """Of two layers, as they are before the first step, drawn by the host."""
    draw = numpy.random.RandomState(SEED + 1)
    return [draw.uniform(-0.5, 0.5, shape).astype(numpy.float32) for shape in ((2, HIDDEN), (HIDDEN,), (HIDDEN, 4), (4,))]


def on_the_device():
    """The losses of all steps, and the weights after the last."""
    where, quarter = points()
    layers = [Tensor(each) for each in weights()]
    optimizer, losses = nn.optim.SGD(layers, lr=0.5), []
    with Context(TRAINING=1):
        for step in range(STEPS):
            some = slice(step * BATCH % POINTS, step * BATCH % POINTS + BATCH)
            one, bias, other, last = layers
            guess = (Tensor(where[some]).dot(one) + bias).relu().dot(other) + last
            loss = guess.sparse_categorical_crossentropy(Tensor(quarter[some]))
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.realize(*optimizer.schedule_step()).numpy())
            Device[Device.DEFAULT].allocator.free_cache()  # which would keep the blocks from the driver
    return numpy.array(losses, dtype=numpy.float32), [each.numpy() for each in layers]


def on_the_host():
    """The same, in numpy's doubles."""
    where, quarter = points()
    one, bias, other, last = (each.astype(numpy.float64) for each in weights())
    losses = []
    for step in range(STEPS):
        some = slice(step * BATCH % POINTS, step * BATCH % POINTS + BATCH)
        inputs, wanted = where[some].astype(numpy.float64), numpy.eye(4)[quarter[some]]
        between = inputs @ one + bias
        active = between * (between > 0)
        guess = numpy.exp(active @ other + last)
        guess /= guess.sum(axis=1, keepdims=True)
        losses.append(-numpy.log((guess * wanted).sum(axis=1)).mean())
        slope = (guess - wanted) / BATCH
        back = slope @ other.T * (between > 0)
        one, bias = one - 0.5 * inputs.T @ back, bias - 0.5 * back.sum(axis=0)
        other, last = other - 0.5 * active.T @ slope, last - 0.5 * slope.sum(axis=0)
    return numpy.array(losses), [one, bias, other, last]


def main():
    """The device's numbers are single precision, the host's double: they may be so far apart."""
    losses, layers = on_the_device()
    losses_of_host, layers_of_host = on_the_host()
    near = numpy.allclose(losses, losses_of_host, rtol=1e-3, atol=1e-4)
    print(f"losses: {losses.tobytes().hex() if near else f'FAILED {losses} is not {losses_of_host}'}")
    print(f"the_loss_falls: {float(losses[-4:].mean()) < float(losses[:4].mean())}")
    for name, layer, of_host in zip(("one", "bias", "other", "last"), layers, layers_of_host):
        near = numpy.allclose(layer, of_host, rtol=1e-3, atol=1e-4)
        print(f"{name}: {layer.tobytes().hex() if near else 'FAILED unlike what the host computes'}")


if __name__ == "__main__":
    main()
