"""Vector Networks: sparse, compositional codes as scikit-learn estimators."""

from ._regressor import VectorNetworkRegressor
from ._transformer import VectorNetworkTransformer

__version__ = "0.1.0"

__all__ = ["VectorNetworkRegressor", "VectorNetworkTransformer", "__version__"]
