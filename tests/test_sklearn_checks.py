"""scikit-learn's own checks: every one of them, with no expected failure."""

import pytest
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from skvn import VectorNetworkRegressor, VectorNetworkTransformer

ESTIMATORS = [
    VectorNetworkTransformer(),
    VectorNetworkTransformer(solver="ard", max_iter=5),
    VectorNetworkTransformer(n_components=(16, 12), max_iter=10, max_sweeps=2),
    VectorNetworkTransformer(positive_code=False, n_nonzero_coefs=2),
    VectorNetworkRegressor(),
    VectorNetworkRegressor(solver="ard", max_iter=5),
    VectorNetworkRegressor(n_components=(16, 12), max_iter=10, max_sweeps=2),
    VectorNetworkRegressor(learning="contrastive", max_iter=5),
    VectorNetworkRegressor(beta=0.5, max_iter=5, fit_intercept=False),
]

# Defined by scikit-learn but not run on third-party estimators.
EXTRA_CHECKS = [
    checks.check_transformer_get_feature_names_out,
    checks.check_transformer_get_feature_names_out_pandas,
    checks.check_set_output_transform,
    checks.check_set_output_transform_pandas,
    checks.check_set_output_transform_polars,
    checks.check_global_set_output_transform_polars,
    checks.check_global_output_transform_pandas,
    checks.check_dataframe_column_names_consistency,
    checks.check_inplace_ensure_writeable,
    checks.check_param_validation,
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# The set_output checks fit on a frame and transform an array.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("check", EXTRA_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "estimator", [ESTIMATORS[0], ESTIMATORS[2], ESTIMATORS[4]], ids=str
)
def test_checks_not_run_by_default(estimator, check):
    check(type(estimator).__name__, estimator)
