"""Tests of the sparse-Bayesian settle."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skvn.core import gaussian
from skvn.core.gaussian import DUAL, PRIMAL, Rows
from skvn.core.settle_ard import _settle_block, evidence, settle_ard

SHAPES = [(12, 20), (20, 12)]  # r < K (r x r form) and r > K (K x K form)


def _problem(r, K, n=8, seed=0, visible=0.7):
    """Rows that are sparse sums of unit-norm atoms, with some noise and a mask."""
    rng = torch.Generator().manual_seed(seed)
    design = torch.randn(r, K, generator=rng, dtype=torch.float64)
    design = design / design.norm(dim=0)
    used = torch.rand(n, K, generator=rng) < 0.2
    codes = used * torch.randn(n, K, generator=rng, dtype=torch.float64)
    noise = torch.randn(n, r, generator=rng, dtype=torch.float64)
    mask = torch.rand(n, r, generator=rng) < visible
    mask[:, 0] = True
    prior = 0.1 + torch.rand(K, generator=rng, dtype=torch.float64)
    return design, codes @ design.T + 0.05 * noise, mask, prior


def _normal(*shape):
    """Standard normal numbers that do not touch torch's global generator."""
    rng = torch.Generator().manual_seed(7)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _dense(design, values, gamma, s2):
    """Posterior mean and covariance of one row, written out."""
    left = design @ torch.diag(gamma)
    total = left @ design.T + s2 * torch.eye(len(design), dtype=design.dtype)
    mean = left.T @ torch.linalg.solve(total, values)
    return mean, torch.diag(gamma) - left.T @ torch.linalg.solve(total, left)


def _close(first, second, tol=1e-9):
    torch.testing.assert_close(first, second, rtol=tol, atol=tol)


OPTIONS = {"noise": 1e-2, "floor": 1e-4}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_rounds_is_the_gaussian_conditional(shape):
    design, observed, mask, prior = _problem(*shape)
    readout = _normal(5, shape[1])
    out = settle_ard(
        design, observed, prior, mask=mask, rounds=0, readout=readout, **OPTIONS
    )
    for i, seen in enumerate(mask):
        mean, cov = _dense(design[seen], observed[i, seen], prior, 1e-2)
        _close(out.codes[i], mean)
        _close(out.variance[i], (readout @ cov @ readout.T).diagonal())
    _close(out.gamma, prior.expand_as(out.gamma), 0)
    _close(out.noise, torch.full_like(out.noise, 1e-2), 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_codes_and_variance_belong_to_the_returned_gamma(shape):
    design, observed, mask, prior = _problem(*shape)
    eye = torch.eye(shape[1], dtype=torch.float64)
    out = settle_ard(design, observed, prior, mask=mask, readout=eye, **OPTIONS)
    for i, seen in enumerate(mask):
        mean, cov = _dense(design[seen], observed[i, seen], out.gamma[i], out.noise[i])
        on = out.codes[i] != 0
        _close(out.codes[i, on], mean[on])
        _close(out.variance[i], cov.diagonal())


@pytest.mark.parametrize("shape", SHAPES)
def test_one_mackay_round_written_out(shape):
    design, observed, _, prior = _problem(*shape)
    out = settle_ard(design, observed, prior, rounds=1, **OPTIONS)
    for i, values in enumerate(observed):
        mean, cov = _dense(design, values, prior, 1e-2)
        well = 1 - cov.diagonal() / prior
        full = values.square().sum()
        expected = (mean.square() / well).clamp(1e-9 * full, 0.5 * full)
        _close(out.gamma[i], expected, 1e-8)
        misfit = (values - design @ mean).square().sum()
        s2 = (1e-2 * misfit / (len(values) - well.sum())).sqrt()
        _close(out.noise[i], s2.clamp(1e-4, full / len(values)), 1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_em_round_written_out(shape):
    design, observed, _, prior = _problem(*shape)
    out = settle_ard(design, observed, prior, rounds=1, rule="em", **OPTIONS)
    for i, values in enumerate(observed):
        mean, cov = _dense(design, values, prior, 1e-2)
        full = values.square().sum()
        expected = mean.square() + cov.diagonal()
        _close(out.gamma[i], expected.clamp(1e-9 * full, 0.5 * full))
        misfit = (values - design @ mean).square().sum()
        s2 = (misfit + (design @ cov @ design.T).trace()) / len(values)
        _close(out.noise[i], s2.clamp(1e-4, full / len(values)))


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", ["mackay", "em"])
def test_both_forms_agree(shape, per_row, rule):
    design, observed, mask, prior = _problem(*shape)
    if per_row:
        design = design + 0.1 * _normal(8, *shape)
    seen = mask.to(observed.dtype)
    rows = Rows(design, observed * seen, seen, None)
    readout = _normal(5, shape[1])
    options = (prior, 1e-2, 1e-4, 4, rule, readout, None)
    dual = _settle_block(rows, DUAL, *options)
    primal = _settle_block(rows, PRIMAL, *options)
    for first, second in zip(dual, primal, strict=True):
        _close(first, second, 1e-8)


def test_pair_table_agrees_with_direct_products():
    design, observed, mask, _ = _problem(12, 20)
    seen = mask.to(observed.dtype)
    gamma = _normal(8, 20).square()
    s2 = torch.full((8,), 1e-2, dtype=torch.float64)
    direct = Rows(design, observed * seen, seen, None)
    table = direct._replace(pairs=gaussian._pairs(design))
    solves = [DUAL.solve(rows, gamma, s2) for rows in (direct, table)]
    _close(solves[0].codes, solves[1].codes, 1e-11)
    first, second = (
        DUAL.leverage(rows, gamma, s2, solves[0].factor) for rows in (direct, table)
    )
    _close(first[0], second[0], 1e-11)
    _close(first[1], second[1], 1e-11)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    r=st.integers(2, 12),
    K=st.integers(1, 16),
    noise=st.floats(1e-3, 1e-1),
)
def test_em_never_lowers_the_evidence(seed, r, K, noise):
    design, observed, mask, _ = _problem(r, K, seed=seed)
    # Start inside the limits of every row, or the first clip could lower it.
    energy = (observed * mask).square().sum(1) / mask.sum(1)
    observed = observed / energy.sqrt()[:, None]
    prior = (0.4 * mask.sum(1).min()).double().expand(K)
    options = {"noise": noise, "floor": 1e-4, "mask": mask, "rule": "em"}
    values = []
    for rounds in range(8):
        out = settle_ard(design, observed, prior, rounds=rounds, **options)
        values.append(evidence(design, observed, out.gamma, out.noise, mask))
    values = torch.stack(values)
    rise = values.diff(dim=0)
    assert (rise <= 1e-8 * (1 + values[1:].abs())).all()
    assert (values[-1] < values[0]).all()


def test_evidence_is_the_gaussian_density():
    design, observed, mask, prior = _problem(12, 20)
    gamma = prior.expand(8, -1)
    noise = torch.full((8,), 0.1, dtype=torch.float64)
    out = evidence(design, observed, gamma, noise, mask)
    for i, seen in enumerate(mask):
        D, v = design[seen], observed[i, seen]
        cov = D @ torch.diag(prior) @ D.T + 0.1 * torch.eye(len(v), dtype=v.dtype)
        normal = torch.distributions.MultivariateNormal(torch.zeros_like(v), cov)
        constant = len(v) * torch.log(torch.tensor(2 * torch.pi, dtype=v.dtype))
        _close(out[i], -2 * normal.log_prob(v) - constant)


@pytest.mark.parametrize("shape", SHAPES)
def test_masked_entries_are_dropped_design_rows(shape):
    design, observed, mask, prior = _problem(*shape)
    hidden_nan = torch.where(mask, observed, torch.nan)
    out = settle_ard(design, hidden_nan, prior, mask=mask, **OPTIONS)
    for i, seen in enumerate(mask):
        values = observed[i : i + 1, seen]
        one = settle_ard(design[seen], values, prior, **OPTIONS)
        _close(out.codes[i], one.codes[0], 1e-7)
        _close(out.gamma[i], one.gamma[0], 1e-7)
        _close(out.noise[i], one.noise[0], 1e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", ["mackay", "em"])
def test_scale_equivariance(shape, rule):
    design, observed, mask, prior = _problem(*shape)
    readout = design[:4]
    options = {"mask": mask, "rule": rule, "readout": readout}
    out = settle_ard(design, observed, prior, noise=1e-2, floor=1e-4, **options)
    a = 1e3
    up = settle_ard(design, a * observed, a**2 * prior, noise=1e4, floor=1e2, **options)
    _close(up.codes / a, out.codes)
    _close(up.gamma / a**2, out.gamma)
    _close(up.noise / a**2, out.noise)
    _close(up.variance / a**2, out.variance)


@pytest.mark.parametrize("shape", SHAPES)
def test_column_scale_equivariance(shape):
    design, observed, mask, prior = _problem(*shape)
    a = 10.0 ** torch.linspace(-2, 2, shape[1], dtype=torch.float64)
    out = settle_ard(design, observed, prior, mask=mask, **OPTIONS)
    up = settle_ard(design * a, observed, prior / a**2, mask=mask, **OPTIONS)
    _close(up.codes * a, out.codes)
    _close(up.gamma * a**2, out.gamma)


@pytest.mark.parametrize("shape", SHAPES)
def test_permuted_atoms_permute_the_codes(shape):
    design, observed, mask, prior = _problem(*shape)
    order = torch.randperm(shape[1], generator=torch.Generator().manual_seed(1))
    out = settle_ard(design, observed, prior, mask=mask, **OPTIONS)
    permuted = settle_ard(
        design[:, order], observed, prior[order], mask=mask, **OPTIONS
    )
    _close(permuted.codes, out.codes[:, order])
    _close(permuted.gamma, out.gamma[:, order])


@pytest.mark.parametrize("shape", [(64, 128), (140, 128)])
def test_rows_do_not_depend_on_each_other(shape):
    design, observed, mask, prior = _problem(*shape, n=24)
    observed[5:9] *= 1e3
    observed[9] = 0
    mask[10] = False
    options = {"noise": 1e-3, "floor": 1e-5, "readout": design[:3]}
    out = settle_ard(design, observed, prior, mask=mask, **options)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(1))
    for part in (order[:1], order[1:4], order[4:]):
        some = settle_ard(design, observed[part], prior, mask=mask[part], **options)
        scale = 1 + observed[part].square().mean(1, keepdim=True)
        _close(some.codes / scale.sqrt(), out.codes[part] / scale.sqrt(), 1e-10)
        _close(some.gamma / scale, out.gamma[part] / scale, 1e-10)
        _close(some.noise / scale[:, 0], out.noise[part] / scale[:, 0], 1e-10)
        _close(some.variance / scale, out.variance[part] / scale, 1e-10)


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_do_not_show(shape, per_row, monkeypatch):
    design, observed, mask, prior = _problem(*shape)
    designs = design + 0.3 * _normal(8, *shape) if per_row else design
    options = {"mask": mask, "readout": design[:4], **OPTIONS}
    out = settle_ard(designs, observed, prior, **options)
    monkeypatch.setattr(gaussian, "BLOCK_ENTRIES", 3 * max(shape) * shape[1])
    again = settle_ard(designs, observed, prior, **options)
    for first, second in zip(again, out, strict=True):
        _close(first, second, 1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_prior_below_the_lower_limit_is_not_raised(shape):
    design, observed, _, prior = _problem(*shape)
    prior[2] = 1e-12
    linear = settle_ard(design, observed, prior, rounds=0, **OPTIONS)
    assert (linear.codes[:, 2] != 0).all()
    out = settle_ard(design, observed, prior, **OPTIONS)
    assert (out.gamma[:, 2] == 1e-12).any()
    assert (out.codes[out.gamma[:, 2] <= 1e-12, 2] == 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_one_design_per_row(shape):
    design, observed, mask, prior = _problem(*shape)
    designs = design + 0.3 * _normal(8, *shape)
    readout = design[:4]
    out = settle_ard(designs, observed, prior, mask=mask, readout=readout, **OPTIONS)
    for i in range(8):
        row = slice(i, i + 1)
        one = settle_ard(
            designs[i], observed[row], prior, mask=mask[row], readout=readout, **OPTIONS
        )
        for first, second in zip(out, one, strict=True):
            _close(first[row], second, 1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_row_with_nothing_visible_keeps_the_prior(shape):
    design, observed, mask, prior = _problem(*shape)
    mask[3] = False
    readout = design[:4]
    out = settle_ard(design, observed, prior, mask=mask, readout=readout, **OPTIONS)
    assert (out.codes[3] == 0).all()
    assert torch.equal(out.gamma[3], prior)
    assert out.noise[3] == OPTIONS["noise"]
    _close(out.variance[3], readout.square() @ prior)
    assert all(torch.isfinite(t).all() for t in out)


@pytest.mark.parametrize("shape", SHAPES)
def test_row_of_zeros_has_code_zero(shape):
    design, observed, _, prior = _problem(*shape)
    observed[2] = 0
    out = settle_ard(design, observed, prior, readout=design[:4], **OPTIONS)
    assert (out.codes[2] == 0).all()
    assert out.noise[2] == OPTIONS["floor"]
    assert all(torch.isfinite(t).all() for t in out)


@pytest.mark.parametrize("shape", SHAPES)
def test_unseen_atom_keeps_its_prior_and_disabled_atom_stays_off(shape):
    design, observed, mask, prior = _problem(*shape)
    mask[:, :3] = False
    design[3:, 1] = 0
    prior[4] = 0
    out = settle_ard(design, observed, prior, mask=mask, **OPTIONS)
    assert (out.gamma[:, 1] == prior[1]).all()
    assert (out.codes[:, [1, 4]] == 0).all()
    assert (out.gamma[:, 4] == 0).all()
    assert all(torch.isfinite(t).all() for t in out[:3])


@pytest.mark.parametrize("shape", SHAPES)
def test_atoms_at_the_lower_limit_are_exactly_off(shape):
    design, observed, _, prior = _problem(*shape)
    out = settle_ard(design, observed, prior, rounds=200, **OPTIONS)
    low = 1e-9 * observed.square().sum(1, keepdim=True).expand_as(out.gamma)
    off = out.codes == 0
    assert off.double().mean() > 0.4
    assert (off.sum(1) < shape[1]).all()
    _close(out.gamma[off] / low[off], torch.ones_like(low[off]))
    assert (out.gamma[~off] > low[~off]).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_sparse_truth_is_found(shape):
    design, _, _, prior = _problem(*shape)
    truth = torch.zeros(8, shape[1], dtype=torch.float64)
    for i in range(8):
        truth[i, i], truth[i, i + 3] = 1.0, -1.5
    options = {"noise": 1e-3, "floor": 1e-8, "rounds": 30}
    out = settle_ard(design, truth @ design.T, prior, **options)
    assert (out.codes - truth).abs().max() < 1e-3
    linear = settle_ard(design, truth @ design.T, prior, **(options | {"rounds": 0}))
    assert (linear.codes - truth).abs().max() > 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_limits_hold(shape):
    design, observed, mask, prior = _problem(*shape, visible=0.3)
    options = {"mask": mask, "rounds": 1, "rule": "em", **OPTIONS}
    out = settle_ard(design, observed, 1e3 * prior, **options)
    energy = (observed * mask).square().sum(1) / mask.sum(1)
    size = mask.double() @ design.square()
    share = out.gamma * size / (energy * mask.sum(1))[:, None]
    _close(share.amax(1), torch.full_like(energy, 0.5))
    noisy = settle_ard(
        design, observed, 1e-6 * prior, mask=mask, rounds=1, noise=1e6, floor=1e-4
    )
    assert (noisy.noise <= energy * (1 + 1e-12)).all()
    high = settle_ard(design, observed, prior, noise=1e2, floor=1e2)
    assert (high.noise == 1e2).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_growth_limits_gamma(shape):
    design, observed, mask, prior = _problem(*shape, visible=0.3)
    options = {"mask": mask, "rounds": 1, "rule": "em", **OPTIONS}
    free = settle_ard(design, 9 * observed, prior, **options).gamma
    assert (free > 2 * prior).any()
    limited = settle_ard(design, 9 * observed, prior, growth=2, **options).gamma
    _close(limited, free.minimum(2 * prior))


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_follows_float64(shape):
    design, observed, mask, prior = _problem(*shape)
    options = {"mask": mask, "noise": 1e-2, "floor": 1e-3}
    out = settle_ard(design, observed, prior, readout=design, **options)
    single = settle_ard(
        design.float(),
        observed.float(),
        prior.float(),
        readout=design.float(),
        **options,
    )
    for first, second in zip(single, out, strict=True):
        assert first.dtype == torch.float32
        torch.testing.assert_close(first.double(), second, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("shape", [(64, 256), (256, 64)])
def test_float32_survives_repeated_atoms_and_a_tiny_floor(shape):
    design, observed, _, prior = _problem(*shape)
    design[:, shape[1] // 2 :] = design[:, : shape[1] // 2]
    observed = (observed @ design @ design.T).float()
    out = settle_ard(
        design.float(), observed, 1e4 * prior.float(), noise=1e-12, floor=1e-12
    )
    assert all(torch.isfinite(t).all() for t in out[:3])
    fit = out.codes @ design.float().T
    assert (fit - observed).norm() < 0.3 * observed.norm()


def test_failed_factorisation_is_retried_for_that_row_alone():
    eye = torch.eye(4, dtype=torch.float64)
    bad = torch.ones(4, 4, dtype=torch.float64) - 1e-14 * eye
    factor = gaussian._cholesky(torch.stack([eye, bad, 2 * eye]))
    assert torch.equal(factor[0], eye)
    assert torch.equal(factor[2], torch.linalg.cholesky(2 * eye))
    _close(factor[1] @ factor[1].T, bad, 1e-10)


def test_inputs_are_left_alone_and_no_rows_are_fine():
    problem = _problem(12, 20)
    copies = [t.clone() for t in problem]
    design, observed, mask, prior = problem
    settle_ard(design, observed, prior, mask=mask, readout=design, **OPTIONS)
    assert all(torch.equal(a, b) for a, b in zip(problem, copies, strict=True))
    none = settle_ard(design, observed[:0], prior, readout=design, **OPTIONS)
    assert [tuple(t.shape) for t in none] == [(0, 20), (0, 20), (0,), (0, 12)]
