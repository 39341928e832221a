"""Coloured noise: random action sequences that push in one direction for a while.

White noise dithers on the spot; noise whose power falls with the frequency as f^-β travels.
iCEM and MPPI plan with it, and it explores better where a robot must first reach something.
"""

import numpy as np
from jaxtyping import Float


def coloured_basis(length: int, exponent: float) -> Float[np.ndarray, "length length"]:
    """The matrix that turns white Gaussian noise over time into noise of power f^-exponent.

    This is the spectral method of Timmer and König (1995) written as a fixed linear map. It is
    circulant, so every time step has the same variance, here 1. The constant component, where
    f^-exponent has its pole, gets the power of the lowest frequency.
    """
    frequencies = np.fft.rfftfreq(length)
    frequencies[0] = 1.0 / length
    kernel = np.fft.irfft(frequencies ** (-exponent / 2), length)
    kernel /= np.linalg.norm(kernel)
    time = np.arange(length)
    return kernel[(time[:, None] - time[None, :]) % length].astype(np.float32)
