"""Images that another program normalised, as the pixels that they were: by undoing the usual affine maps."""

import hashlib
from collections.abc import Set

import numpy as np

from fedgrid.errors import UserError

Shape = tuple[int, int, int]
"Height, width, channels."
Constants = tuple[tuple[float, ...], tuple[float, ...]]
"Mean and standard deviation by channel, or one of all, after division by 255."
USUAL: tuple[Constants, ...] = (
    ((0.5,), (0.5,)),  # (x / 255 − 0.5) / 0.5
    ((0.0,), (1.0,)),  # x / 255
    ((0.0,), (1 / 255,)),  # x
    ((0.1307,), (0.3081,)),  # MNIST's
    ((0.2860,), (0.3530,)),  # Fashion-MNIST's
    ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),  # CIFAR-10's
    ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),  # CIFAR-10's, exact
    ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),  # CIFAR-100's
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # ImageNet's
)
"Normalisations of other programs."
OFF = 0.02
"A pixel that was normalised in 32 bits lies no farther from a whole number."
SAMPLE = 64
"Images from which the normalisation is found out."


def digests_of(pixels: np.ndarray) -> list[str]:
    """SHA-256 of the bytes of each image, pixels uint8 [n, height, width, channels]."""
    return [hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest() for image in pixels]


def laid_out(images: np.ndarray, shape: Shape, where: str) -> np.ndarray:
    """Images as [n, height, width, channels], which may have their channels first, or none; UserError for others."""
    height, width, channels = shape
    if images.shape[1:] == (channels, height, width):
        return np.moveaxis(images, 1, 3)
    if images.shape[1:] == shape:
        return images
    if channels == 1 and images.shape[1:] == (height, width):
        return images[..., None]
    form = "×".join(map(str, images.shape[1:])) or "none"
    wanted = "×".join(map(str, shape))
    raise UserError(f"{where}: its images are {form}, those of the data set {wanted} (height, width, channels)")


def pixels_of(images: np.ndarray, constants: Constants) -> np.ndarray | None:
    """Pixels uint8 of normalised images [n, height, width, channels]; None where these constants give none."""
    mean, std = (np.asarray(values, np.float64) for values in constants)
    if mean.size not in (1, images.shape[-1]):
        return None
    values = (images * std + mean) * 255
    pixels = np.rint(values)
    if pixels.size and not (np.abs(values - pixels).max() <= OFF and pixels.min() >= 0 and pixels.max() <= 255):
        return None
    return pixels.astype(np.uint8)


def normalisation_of(images: np.ndarray, known: Set[str], own: Constants) -> Constants | None:
    """The constants with which some of the images [n, height, width, channels] are images whose digests are `known`."""
    for constants in (*USUAL, own):
        pixels = pixels_of(images[:SAMPLE], constants)
        if pixels is not None and not known.isdisjoint(digests_of(pixels)):
            return constants
    return None
