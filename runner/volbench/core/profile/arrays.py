"""The type of arrays in the calculations of limits and credits, apart from modules that need no numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
