"""Images: reconstruct, fill, denoise, take apart and move digits.

Data. "mnist": 14 x 14 pixels (28 x 28 pooled 2 x 2), 2500 training and 300 test images
drawn per seed; "digits": scikit-learn's 8 x 8, 1200 and 597. All pixels are in [0, 1]
and every model learns from single images only (but see "unmix").

Tasks, as ``data-task``:

``reconstruct``  the image from 32 numbers (digits: 16) of code
``half``         a random known half (top, bottom, left, right) from the other half
``denoise``      the image from itself plus noise of standard deviation .25
``classes``      as ``reconstruct``, trained on 2000 images of the classes 0 to 4
``classes-half`` as ``half``, trained on those
``unmix``        both parts of a sum of two images, their classes told or not
``moving``       the next frame after two, trained on 4000 sequences of one move each

Splits: "id" unseen images; "sum2", "sum3" sums of two and three of different classes;
"max" the pixelwise maximum of two; "rt" turned by 15 to 30 degrees and shifted by .5 to
1 pixel along both axes; "heldout" classes 5 to 9, "mixheld" one image of each kind of
class; "known", "unknown" classes of the parts; moves "rt", "rs", "ts", "rts" are made
of rotation, translation and scaling, "mix2" are two digits that move on their own.

The error is the squared error as a share of the energy; of the hidden pixels only where
some are hidden, and of both parts, in the better order where classes are not told.

Settings that are not the same for all data were chosen on a tenth of the training
images; form and sizes of the operator of "moving" by the "id" split of one further
seed. The networks of "digits" are narrower. "VN clamped, 2 layers" is slow and runs on
digits only. The tables say how many seeds a configuration has had.
"digits-moving" has frames of 8 x 8 from digits drawn at 16 x 16; it is there for
``--quick``, which takes MNIST only with ``--mnist``.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from _images_data import NOISE, load
from _images_vn import (
    LocalOperator,
    Plain,
    Reconstructor,
    Refitted,
    Restorer,
    Unmixer,
    noisy,
)
from _runner import Method, main
from baselines.autoencoders import (
    FrameCNN,
    RefinedLatent,
    add_noise,
    conv_autoencoder,
    conv_filler,
    itself,
    mlp_autoencoder,
    random_halves,
)
from baselines.dictionary import Projection, SparseDictionary
from baselines.gaussian import GaussianConditional
from baselines.imputers import Neighbours
from baselines.mlp import MLP
from baselines.training import Backprop
from baselines.trivial import Given, HalfOfTheSum, Wiener
from baselines.unmixing import (
    GaussianUnmixer,
    MixtureMLP,
    MixtureTrained,
    NMFUnmixer,
    sums_of_two,
)
from sklearn.linear_model import RidgeCV

from skvn.datasets import hide_halves

TASKS = ["reconstruct", "half", "denoise", "classes", "classes-half", "unmix", "moving"]
CONFIGS = [f"{data}-{task}" for data in ("mnist", "digits") for task in TASKS]


class Size(NamedTuple):
    """Side of the images, atoms, numbers in a code, and width of the MLPs."""

    side: int
    n_atoms: int
    n_code: int
    width: int


def methods(config, options):
    """Baselines and Vector Networks of a task, at the sizes of the data."""
    data, task = config.split("-", 1)
    if data == "mnist" and options.quick and options.mnist is None:
        return []
    size = Size(14, 192, 32, 256) if data == "mnist" else Size(8, 128, 16, 128)
    if options.quick:
        size = size._replace(n_atoms=16, n_code=8, width=64)
    return {
        "reconstruct": reconstruct_methods,
        "classes": reconstruct_methods,
        "half": half_methods,
        "classes-half": half_methods,
        "denoise": denoise_methods,
        "unmix": unmix_methods,
        "moving": moving_methods,
    }[task](size)


def net(name, make, steps, kind=Backprop, **keywords):
    """A network of the training loop; it gets few steps with ``--quick``."""
    keywords = {"patience": 3} | keywords

    def build(seed, options):
        budget = 20 if options.quick else steps
        return kind(make, seed, budget, options.device, **keywords)

    return Method(name, "neural", build)


def vn(name, kind, epochs, *args, **keywords):
    """A Vector Network; it gets few epochs with ``--quick``."""

    def build(seed, options):
        limit = {"max_iter": 2 if options.quick else epochs, "device": options.device}
        return kind(*args, random_state=seed, **limit, **keywords)

    settings = {"max_iter": epochs} | keywords
    text = ", ".join(f"{key}={value}" for key, value in settings.items())
    return Method(f"VN {name}", "vn", build, text)


def classical(name, make, *args, **keywords):
    """A method without randomness or device."""
    return Method(name, "classical", lambda seed, options: make(*args, **keywords))


def trivial(name, make, *args):
    """An answer to compare with, not a rival."""
    return Method(name, "reference", lambda seed, options: make(*args))


def dictionary(name, K, coder, **keywords):
    """scikit-learn's dictionary, with a budget of atoms or an l1 penalty."""

    def build(seed, options):
        epochs = 1 if options.quick else 20
        return SparseDictionary(K, coder, seed, epochs=epochs, **keywords)

    return Method(f"dictionary learning, {name}", "classical", build)


def reconstruct_methods(size):
    """All answer from the same number of code entries."""
    side, K, b, width = size
    mlp = partial(mlp_autoencoder, side**2, b, width)
    conv, vae = (partial(conv_autoencoder, side, b, beta) for beta in (0, 1e-3))
    same = {"augment": itself}
    plain = {"n_components": K, "solver": "l1", "n_nonzero_coefs": b}
    signed = plain | {"positive_code": False, "alpha": 0.01}
    wide = signed | {"n_components": 2 * K}
    return [
        classical("PCA", Projection, b),
        classical("NMF", Projection, b, "nmf"),
        dictionary(f"{K} atoms", K, "omp", n_nonzero=b),
        dictionary(f"{2 * K} atoms", 2 * K, "omp", n_nonzero=b),
        net("MLP autoencoder", mlp, 2000, **same),
        net("MLP autoencoder, code refined", mlp, 2000, RefinedLatent, **same),
        net("conv autoencoder", conv, 1500, **same),
        net("VAE", vae, 1500, **same),
        vn(f"l1, {K} atoms (plain)", Reconstructor, 10, **plain),
        vn(f"l1 signed, refitted, {K} atoms", Refitted, 10, **signed),
        vn(f"l1 signed, refitted, {2 * K} atoms", Refitted, 10, **wide),
    ]


def half_methods(size):
    """Networks see fresh random halves in every batch; VN regressors two of each."""
    side, K, _, width = size
    mlp = partial(mlp_autoencoder, side**2, 64, width)
    conv = partial(conv_autoencoder, side, 64)
    half, atoms = {"augment": random_halves}, {"n_components": K}
    regressor = partial(vn, kind=Restorer, spoil=hide_halves)
    two = regressor("clamped, 2 layers", epochs=10, n_components=(K, K // 2), beta=0.1)
    return [
        trivial("mean image", GaussianConditional, 1e9),
        classical("Gaussian", GaussianConditional, 0.01),
        classical("Gaussian, uncentred", GaussianConditional, 0.01, centred=False),
        classical("k nearest", Neighbours, 10),
        dictionary("lasso", K, "lasso", penalty=0.003),
        net("MLP autoencoder", mlp, 2000, **half),
        net("conv autoencoder", conv, 1500, **half),
        vn("l1 (plain)", Reconstructor, 10, solver="l1", **atoms),
        regressor("clamped", epochs=10, beta=0.1, **atoms),
        regressor("contrastive", epochs=10, learning="contrastive", **atoms),
        vn("ard", Reconstructor, 5, solver="ard", n_components=96),
        *([two] if side == 8 else []),
    ]


def denoise_methods(size):
    """Networks see fresh noise in every batch; its size is known to all."""
    side, K, n_code, width = size
    mlp = partial(mlp_autoencoder, side**2, 64, width)
    noise, atoms = {"augment": add_noise}, {"n_components": K, "alpha": 0.12}
    contrast = atoms | {"learning": "contrastive"}
    return [
        trivial("noisy image", Given),
        classical("Wiener", Wiener, NOISE),
        classical("Wiener, uncentred", Wiener, NOISE, centred=False),
        classical("PCA", Projection, n_code),
        classical("k nearest", Neighbours, 10),
        dictionary("lasso", K, "lasso", penalty=0.12),
        net("MLP autoencoder", mlp, 2000, **noise),
        net("conv denoiser", partial(conv_filler, side), 400, **noise),
        vn("l1 (plain)", Reconstructor, 10, solver="l1", **atoms),
        vn("contrastive", Restorer, 10, spoil=noisy, **contrast),
    ]


def unmix_methods(size):
    """One model per class of single images; the network trains on sums."""
    K = size.n_atoms // 3
    mlp = partial(MixtureMLP, size.side**2, width=size.width)
    return [
        trivial("half of the sum", HalfOfTheSum),
        classical("Gaussian per class", GaussianUnmixer),
        classical("NMF per class", NMFUnmixer, min(K, 20)),
        net("MLP trained on sums", mlp, 2000, MixtureTrained, augment=sums_of_two),
        vn("l1 per class (plain)", Unmixer, 10, solver="l1", n_components=K),
    ]


def moving_methods(size):
    """From two frames to the third."""
    d = size.side**2
    atoms = {"n_components": size.n_atoms, "solver": "l1"}
    two_rates = {"rates": (1e-3, 3e-3)}
    return [
        trivial("last frame", Given, d),
        classical("ridge", RidgeCV, np.logspace(-4, 1, 6)),
        classical("k nearest", Neighbours, 5),
        net("MLP", partial(MLP, 2 * d, d, size.width), 2000),
        net("CNN", partial(FrameCNN, size.side), 750, **two_rates),
        vn("clamped (plain)", Plain, 10, beta=0.1, **atoms),
        vn("contrastive", Plain, 5, learning="contrastive", **atoms),
        vn("operator", LocalOperator, 30),
    ]


if __name__ == "__main__":
    main(__doc__, "images", CONFIGS, load, methods)
