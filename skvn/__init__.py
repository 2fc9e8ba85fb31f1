"""Vector Networks: sparse, compositional codes as scikit-learn estimators."""

from ._grid_regressor import VectorNetworkGridRegressor
from ._grid_transformer import VectorNetworkGridTransformer
from ._operator_regressor import VectorNetworkOperatorRegressor
from ._regressor import VectorNetworkRegressor
from ._transformer import VectorNetworkTransformer
from .systems import pack_systems, unpack_systems

__version__ = "0.1.0"

__all__ = [
    "VectorNetworkGridRegressor",
    "VectorNetworkGridTransformer",
    "VectorNetworkOperatorRegressor",
    "VectorNetworkRegressor",
    "VectorNetworkTransformer",
    "__version__",
    "pack_systems",
    "unpack_systems",
]
