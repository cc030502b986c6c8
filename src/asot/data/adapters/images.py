"""Images as distributions: ink is mass, and a pixel is a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from asot.data.flatten import flatten_weights
from asot.data.reading import label_of
from asot.validation import first_false, to_float_array


def flatten_images(stack: Any, ids: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Positions (H W, 2) of all pixels, and the pixels where each image (H, W) has ink."""
    images = to_float_array(stack, "stack", keep_float32=True)
    if images.ndim != 3 or 0 in images.shape:
        hint = "; turn colors into gray first, such as stack.mean(axis=-1)" if images.ndim == 4 else ""
        hint = "; pass image[None] for a single one" if images.ndim == 2 else hint
        raise ValueError(f"stack must be gray images (N, H, W); found shape {images.shape}{hint}")
    good = np.isfinite(images) & (images >= 0)
    if not good.all():
        i, row, column = first_false(good)
        raise ValueError(
            f"{label_of(i, ids, 'image')} has the ink {images[i, row, column]:g} at "
            f"({row}, {column}); ink must be finite and ≥ 0"
        )
    inked = images.any(axis=(1, 2))
    if not inked.all():
        i = int(np.argmin(inked))
        raise ValueError(f"{label_of(i, ids, 'image')} is blank; drop it, it has no mass")
    rows, columns = np.indices(images.shape[1:])
    positions = np.column_stack([rows.ravel(), columns.ravel()]).astype(np.float64)
    return flatten_weights(images.reshape(len(images), -1), positions, ids)
